from .orders import Order, allocate
from .warehouse import NotEnough, Warehouse

__all__ = ["NotEnough", "Order", "Warehouse", "allocate"]
