//! An expression as a column: the values of all instances, in the shape of the loop.

use crate::Expression;
use crate::chunk::Chunk;
use crate::eval::batch::InstanceBatch;
use crate::eval::bind::{Scope, batches};
use crate::eval::evaluate::evaluate;
use crate::operator::{Binary, Unary};
use crate::syntax::ast::Node;
use hither_core::Error;
use hither_formats::{Column, Values};

impl Expression {
    /// The values for the entries of `chunk`: in double precision or, for comparisons and `&& ||
    /// !`, as truth values. An expression over an array returns an array of the same shape, jagged
    /// or fixed; one over several arrays has the shape of their loop.
    ///
    /// # Errors
    /// As [`Selection::evaluate`](crate::Selection::evaluate).
    pub fn column(&self, chunk: &Chunk<'_>) -> Result<Column, Error> {
        let mut scope = Scope::new(chunk);
        let formula = scope.bind(&self.root)?;
        let instances = scope.close()?;
        let entries = chunk.entries();
        let mut values = Vec::with_capacity(instances.start(entries));
        for range in batches(0..instances.start(entries)) {
            let batch = InstanceBatch::range(range, &instances);
            values.extend(evaluate(&scope, &formula, &batch).finish(batch.len()));
        }
        let (offsets, item_shape) = instances.shape(entries);
        let values = if is_truth(&self.root) {
            Values::Bool(values.into_iter().map(|value| value != 0.0).collect())
        } else {
            Values::F64(values)
        };
        Ok(Column { entries, offsets, item_shape, values })
    }
}

/// Returns true if the values of `node` are truth values. A missing value counts as true, as in
/// ROOT.
fn is_truth(node: &Node) -> bool {
    match node {
        Node::Binary(Binary::BitAnd | Binary::BitOr, left, right) => {
            is_truth(left) && is_truth(right)
        }
        Node::Binary(operator, _, _) => operator.is_truth(),
        Node::Unary(operator, _) => *operator == Unary::Not,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jagged(offsets: Vec<i64>, values: Vec<f32>) -> Column {
        let entries = offsets.len() - 1;
        Column { entries, offsets: Some(offsets), item_shape: vec![], values: Values::F32(values) }
    }

    #[test]
    fn a_column_has_the_shape_of_its_loop() {
        let n = Column {
            entries: 2,
            offsets: None,
            item_shape: vec![],
            values: Values::I32(vec![1, 2]),
        };
        let m = Column {
            entries: 2,
            offsets: None,
            item_shape: vec![2, 2],
            values: Values::F32((0..8_u8).map(f32::from).collect()),
        };
        let j = jagged(vec![0, 3, 4], vec![1.0, 2.0, 3.0, 4.0]);
        let chunk = Chunk::new(0, 2).with("n", &n).with("m", &m).with("j", &j);
        let column = |text: &str| Expression::parse(text).unwrap().column(&chunk).unwrap();
        assert_eq!(column("n+1").item_shape, Vec::<usize>::new());
        assert_eq!(column("n+1").values, Values::F64(vec![2.0, 3.0]));
        assert_eq!(column("m*n").item_shape, vec![2, 2]);
        assert_eq!(column("m*n").values.len(), 8);
        assert_eq!(column("m[][1]").item_shape, vec![2]);
        assert_eq!(column("j+n").offsets, Some(vec![0, 3, 4]));
        assert_eq!(column("j>2").values, Values::Bool(vec![false, false, true, true]));
        assert_eq!(column("Sum$(j)").values, Values::F64(vec![6.0, 4.0]));
        assert_eq!(column("Sum$(j)").item_shape, Vec::<usize>::new());
    }
}
