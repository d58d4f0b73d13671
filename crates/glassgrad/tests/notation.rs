//! Table 3.1 of the tensor-calculus seed: the page of notations, row by row.

use glassgrad::Tensor;

/// What the last column of the page means, by its text.
fn method(text: &str, tensors: &[(&str, Tensor)]) -> Tensor {
    let get = |name: &str| &tensors.iter().find(|(known, _)| *known == name).expect("a tensor").1;
    match text {
        "y.outer(&x)" => get("y").outer(get("x")),
        "a.matmul(&x)" => get("A").matmul(get("x")),
        "y.inner(&x)" => get("y").inner(get("x")),
        "a.matmul(&b)" => get("A").matmul(get("B")),
        "y * x" => get("y") * get("x"),
        "a * x.unsqueeze(1)" => get("A") * get("x").unsqueeze(1),
        other => panic!("the page has a row that this test does not know: {other}"),
    }
}

#[test]
fn the_three_notations_of_the_page_agree() {
    let page = include_str!("../../../docs/notation.md");
    let tensors = [
        ("A", Tensor::from([[1.0, -2.0, 0.5], [3.0, 4.0, -1.0], [0.2, 5.0, 6.0]])),
        ("B", Tensor::from([[2.0, 1.0, 0.0], [-1.0, 3.0, 2.0], [4.0, 0.5, 1.0]])),
        ("x", Tensor::from([1.0, 2.0, -3.0])),
        ("y", Tensor::from([0.5, -1.0, 4.0])),
    ];
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.contains("*(") && line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`')).collect())
        .collect();
    assert_eq!(rows.len(), 6);
    for row in rows {
        // The Einstein column names the operands and repeats the index sets of the einsum column.
        let (first, rest) = row[2].split_once(" *(").expect("A *(s1, s2, s3) B");
        let (sets, second) = rest.split_once(") ").expect("index sets");
        let sets: Vec<String> = sets.split(',').map(|set| set.trim().replace('∅', "")).collect();
        assert_eq!(format!("{},{}->{}", sets[0], sets[1], sets[2]), row[3]);
        let operand = |name: &str| &tensors.iter().find(|(known, _)| *known == name).expect("a tensor").1;
        let product = Tensor::einsum(row[3], [operand(first), operand(second)]);
        let expected = method(row[4], &tensors);
        assert_eq!(product.shape(), expected.shape(), "{}", row[0]);
        assert_eq!(product.to_vec::<f64>().unwrap(), expected.to_vec::<f64>().unwrap(), "{}", row[0]);
    }
}
