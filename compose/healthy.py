"""Exit 0 if a server of ours answers 200 on this machine's port. Standard library without `site`: 15 ms a look.

python -I -S healthy.py PORT
"""

import socket
import sys

REQUEST = b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n"
TIMEOUT_S = 3.0

with socket.create_connection(("127.0.0.1", int(sys.argv[1])), TIMEOUT_S) as connection:
    connection.sendall(REQUEST)
    answer = connection.recv(64)
sys.exit(0 if b" 200 " in answer else 1)
