//! What is remembered on disk: endpoint ledger and file metadata.
