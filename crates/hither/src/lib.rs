//! The library people use: Client, open, trees, queries, explain.
