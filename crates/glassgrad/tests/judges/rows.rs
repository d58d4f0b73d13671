//! All rows of the table of operations, as a list.

use glassgrad::ops::{Binary, Operation, Row, Unary, Visitor, visit};

pub(crate) fn table() -> Vec<Row> {
    struct Collect(Vec<Row>);
    impl Visitor for Collect {
        fn unary<R: Unary>(&mut self, row: &Row) {
            self.0.push(row.clone());
        }
        fn binary<R: Binary>(&mut self, row: &Row) {
            self.0.push(row.clone());
        }
    }
    let mut collect = Collect(Vec::new());
    visit(&mut collect);
    assert_eq!(collect.0.len(), Operation::ALL.len(), "every row is visited once");
    collect.0
}
