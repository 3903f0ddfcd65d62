import unittest

from routes import NoRoute, Router, read_query, write_query


class Routes(unittest.TestCase):
    def test_find(self):
        router = Router()
        router.add("/users/{id:int}", "user")
        self.assertEqual(router.find("/users/7"), ("user", {"id": 7}))
        with self.assertRaises(NoRoute):
            router.find("/users/x")

    def test_query(self):
        self.assertEqual(read_query("a=1&a=2"), {"a": ["1", "2"]})
        self.assertEqual(write_query({"b": ["x y"]}), "b=x%20y")
