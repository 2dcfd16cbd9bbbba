//! Results of ROOT's `TTree::Draw`, reproduced.

mod columns;
mod lists;
