//! Tables.

use glassgrad::data::Targets;
use glassgrad::data::files::{Column, Features, Reading, Table};

use super::damage::damaged;
use super::{example, packed, written};

const PEOPLE: &str =
    "name,age,weight,married\nAda,36,55.5,yes\nBert,?,71,no\n\"Clara, the\nelder\",81,,yes\nDora,4,1.8e1,NA\n";

#[test]
fn a_table_has_typed_columns() {
    let table = Table::parse(PEOPLE).unwrap();
    assert_eq!(table.names(), ["name", "age", "weight", "married"]);
    assert_eq!(table.rows(), 4);
    let ages = table.numbers("age").unwrap();
    assert!(ages[0] == 36.0 && ages[1].is_nan() && ages[2..] == [81.0, 4.0]);
    assert_eq!(table.column("name").unwrap().words().unwrap()[2], "Clara, the\nelder");
    assert_eq!(table.missing(), [("name", 0), ("age", 1), ("weight", 1), ("married", 1)]);
    assert_eq!(table.without_missing().unwrap().rows(), 1);
    // Dora is in line 6: the name before hers has two lines.
    let error = table.categories("married").unwrap_err().to_string();
    assert!(error.contains("line 6, column \"married\": the class is missing"), "{error}");
    let error = table.with_means().unwrap_err().to_string();
    assert!(error.contains("line 6, column \"married\": a word is missing"), "{error}");
}

#[test]
fn separators_headers_and_line_ends_are_found_out() {
    let expected = Table::parse("a,b\n1,2\n3,4\n").unwrap();
    let variants = [
        "a;b\n1;2\n3;4",
        "a\tb\r\n1\t2\r\n3\t4\r\n",
        "\u{feff}a,b\n\n1,2\n  \n3,4\n\n",
        "a , b\n 1, 2\n3 ,4",
        "\"a\",\"b\"\n\"1\",\"2\"\n3,\"4\"\n",
    ];
    for text in variants {
        let table = Table::parse(text).unwrap();
        assert_eq!((table.names(), table.columns()), (expected.names(), expected.columns()), "{text:?}");
        assert_eq!(Table::parse(packed(text.as_bytes())).unwrap(), table);
    }
    // Decimal commas: the semicolon separates.
    let table = Table::parse("1,5;2,5\n3,5;4,5\n").unwrap();
    assert_eq!((table.numbers("f0").unwrap(), table.numbers("f1").unwrap()), (vec![1.5, 3.5], vec![2.5, 4.5]));
    // Without names, and with names that only the user can tell.
    assert_eq!(Table::parse("1,2\n3,4\n").unwrap().names(), ["f0", "f1"]);
    assert_eq!(Reading::default().header(true).parse("1,2\n3,4\n").unwrap().names(), ["1", "2"]);
    assert_eq!(Table::parse("red,1\nblue,2\n").unwrap().rows(), 2);
    assert_eq!(Table::parse("colour,1\nred,2\n").unwrap().rows(), 2);
    assert_eq!(Table::parse("colour,size\nred,2\n").unwrap().rows(), 1);
    assert_eq!(Table::parse("colour,shape\nred,round\n").unwrap().rows(), 1);
    assert_eq!(Reading::default().header(false).parse("colour,shape\nred,round\n").unwrap().rows(), 2);
    // One column, whose words hold no separator, and an index without a name.
    assert_eq!(Table::parse("x\n1\n2\n").unwrap().numbers("x").unwrap(), [1.0, 2.0]);
    assert_eq!(Table::parse(",x\n0,5\n1,6\n").unwrap().names(), ["f0", "x"]);
}

#[test]
fn wrong_tables_are_refused_with_the_place() {
    let cases: [(&[u8], &str); 10] = [
        (b"", "there is nothing in it"),
        (b"\n\n  \n", "there is nothing in it"),
        (b"a,b\n", "no rows below the names in line 1"),
        (b"a,b\r\n1,2\r\n\r\n3,4,5\r\n", "line 4 has 3 cells, and line 1 has 2"),
        (b"a,b\n1,\"2\n3,4\n", "a quote in line 2 is never closed"),
        (b"a,b\n1,2\n3,\xff\n", "line 3 is not UTF-8, at byte 10 of the text"),
        (b"3,1,no,yes\n1.5,0\n2.5,1\n", "line 1 declares 3 rows, and there are 2"),
        (b"2,1,no,yes\n1.5,0\n2.5,2\n", "line 3, column \"class\": 2 is not the number of one of the 2 classes"),
        (b"\x1f\x8b\x08 damaged", "compressed bytes are damaged"),
        (b"2,1,no,yes\n1.5,0\n2.5\n", "line 3 has 1 cell, and line 2 has 2"),
    ];
    for (bytes, reason) in cases {
        let error = Table::parse(bytes).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}, not {reason}");
    }
    let path = written("wrong.csv", b"age\n3\nfour\n");
    let table = Table::read(&path).unwrap();
    let error = table.numbers("age").unwrap_err().to_string();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(
        error.lines().next().unwrap(),
        format!("table: {}: line 3, column \"age\": \"four\" is not a number", path.display())
    );
}

#[test]
fn the_tables_of_scikit_learn_are_understood() {
    let iris = Table::read(example("iris.csv")).unwrap();
    let source = iris.source("iris", None, None).unwrap();
    assert_eq!(source.feature_names, ["f0", "f1", "f2", "f3"]);
    let Targets::Classes { indices, names } = &source.examples.targets else { panic!("irises have species") };
    assert_eq!(*names, ["setosa", "versicolor", "virginica"]);
    assert_eq!(indices.to_vec::<i64>().unwrap(), [[0; 50], [1; 50], [2; 50]].concat());
    assert_eq!(source.examples.features.shape().to_string(), "[150, 4]");

    let cases = [("wine.csv", [178, 13], 3), ("breast_cancer.csv", [569, 30], 2)];
    for (name, shape, classes) in cases {
        let source = Table::read(example(name)).unwrap().source(name, None, None).unwrap();
        assert_eq!(source.examples.features.shape().to_vec(), shape);
        assert_eq!(source.examples.targets.width(), classes);
    }
    let diabetes = Table::read(example("diabetes.csv")).unwrap().source("diabetes", None, None).unwrap();
    assert_eq!(diabetes.feature_names, ["age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6"]);
    assert!(
        matches!(&diabetes.examples.targets, Targets::Numbers { values, .. } if values.shape().to_vec() == [442, 1])
    );
    // The mean of the target, as published.
    assert!((diabetes.examples.targets.tensor().mean().item().unwrap() - 152.133).abs() < 1e-3);
}

#[test]
fn targets_are_chosen_and_classified() {
    let table = Table::parse("grade,size,price\n1,1.5,10\n2,2.5,11.5\n1,3.5,12\n").unwrap();
    let by_number = table.source("flats", Some("0"), Some(true)).unwrap();
    assert_eq!(by_number.examples.targets.names(), ["1", "2"]);
    assert_eq!(by_number.feature_names, ["size", "price"]);
    let error = table.source("flats", Some("size"), Some(true)).unwrap_err().to_string();
    assert!(error.contains("line 2, column \"size\": 1.5 is not a class"), "{error}");
    let error = table.source("flats", Some("colour"), None).unwrap_err().to_string();
    assert!(
        error.contains("there is no column \"colour\"") && error.contains("there are \"grade\", \"size\", \"price\"")
    );
    let error = Table::parse("a,b\n1,2\n3,\n").unwrap().source("x", None, None).unwrap_err().to_string();
    assert!(error.contains("line 3, column \"b\": the target is missing"), "{error}");
    let error = Table::parse("a,b\n1,2\n,4.5\n").unwrap().source("x", None, None).unwrap_err().to_string();
    assert!(error.contains("line 3, column \"a\": the value is missing"), "{error}");
    let twice = Table::parse("a,a,b\n1,2,3\n4,5,6\n").unwrap();
    assert!(twice.column("a").unwrap_err().to_string().contains("columns 0 and 1 are both called \"a\""));
    assert_eq!(Features::of(&twice, "b").unwrap().apply(&twice).unwrap().to_string(), "[[1, 2],\n [4, 5]]");
}

#[test]
fn what_is_written_reads_back() {
    let numbers = vec![0.1 + 0.2, -1e300, f64::NAN, 5e-324, f64::INFINITY];
    let words = Column::of_words(["a\"b", "c,d", "e\nf", "ä", "x"]);
    let table = Table::new([("n", Column::Numbers(numbers.clone())), ("w", words.clone())]).unwrap();
    let again = Table::parse(table.to_csv()).unwrap();
    assert_eq!(again.column("w").unwrap(), &words);
    for (read, number) in again.numbers("n").unwrap().into_iter().zip(numbers) {
        assert!(read.to_bits() == number.to_bits() || read.is_nan() && number.is_nan(), "{read} {number}");
    }
    // One column in which a value is missing: its line is not an empty one.
    let lonely = Table::new([("n", Column::Numbers(vec![1.0, f64::NAN, 2.0]))]).unwrap();
    assert_eq!(Table::parse(lonely.to_csv()).unwrap().rows(), 3);
    let uneven = Table::new([("a", Column::Numbers(vec![1.0])), ("b", Column::Numbers(vec![]))]);
    assert!(uneven.unwrap_err().to_string().contains("\"a\" has 1 rows and \"b\" has 0"));
}

#[test]
fn damage_is_refused_or_read() {
    let iris: String =
        std::fs::read_to_string(example("iris.csv")).unwrap().lines().take(8).collect::<Vec<_>>().join("\n");
    let iris = iris.replace("150,", "7,");
    for (bytes, seed) in [(PEOPLE.as_bytes().to_vec(), 1), (iris.into_bytes(), 2), (packed(PEOPLE.as_bytes()), 3)] {
        damaged(&bytes, seed, |bytes| match Table::parse(bytes) {
            Ok(table) => {
                assert!(table.columns().iter().all(|column| column.len() == table.rows()));
                assert!(table.rows() * table.columns().len() <= 1100 * bytes.len().max(1));
                let _ = table.without_missing().map(|table| table.source("damaged", None, None).map(|_| ()));
                let _ = table.with_means();
                assert!(!table.to_csv().is_empty());
            }
            Err(error) => assert!(error.to_string().starts_with("table: "), "{error}"),
        });
    }
}

#[test]
fn decimal_commas_are_numbers() {
    let table = Table::parse("area;rooms;price\n54,5;2;210,5\n71;3;265\n;1;1198,25\n80,125;4;3,0e2\n").unwrap();
    let areas = table.numbers("area").unwrap();
    assert!(areas[..2] == [54.5, 71.0] && areas[2].is_nan() && areas[3] == 80.125, "{areas:?}");
    assert_eq!(table.numbers("price").unwrap(), [210.5, 265.0, 1198.25, 300.0]);
    let flats = table.without_missing().unwrap().source("flats", None, None).unwrap();
    assert!(matches!(flats.examples.targets, Targets::Numbers { .. }));
    // Tabs, a missing header, and a table that says so itself.
    assert_eq!(Table::parse("1,5\t2\n2,5\t3\n").unwrap().numbers("f0").unwrap(), [1.5, 2.5]);
    let quoted = Reading::default().decimal_comma(true).parse("a,b\n\"1,5\",2\n\"2,5\",3\n").unwrap();
    assert_eq!(quoted.numbers("a").unwrap(), [1.5, 2.5]);
    assert!(Reading::default().decimal_comma(false).parse("a;b\n1,5;2\n").unwrap().numbers("a").is_err());
    // Lists in cells stay words.
    assert!(Table::parse("a;b\n1,2,3;4\n1,2;5\n").unwrap().columns()[0].words().is_some());
}

#[test]
fn commas_that_could_group_thousands_are_refused() {
    for (text, words) in [
        ("price;n\n1,234;1\n22,345;2\n", "line 2, column \"price\": \"1,234\" may have a decimal comma or"),
        ("price;n\n1.234,50;1\n3,5;2\n", "line 2, column \"price\": \"1.234,50\" is a number whose digits are grouped"),
        ("price;n\n3,5;1\n1,234,567;2\n", "\"1,234,567\" is a number whose digits are grouped"),
        ("price;n\n3,5;1\n4.5;2\n", "\"3,5\" has a decimal comma, and \"4.5\" in line 3 a decimal point"),
    ] {
        let message = Table::parse(text).unwrap_err().to_string();
        assert!(message.contains(words) && message.contains("help: write"), "{text:?}: {message}");
    }
    // One number that can only be decimal decides for the table.
    let table = Table::parse("a;b\n1,234;0,5\n2,345;1,5\n").unwrap();
    assert_eq!(table.numbers("a").unwrap(), [1.234, 2.345]);
}

#[test]
fn classes_that_are_nearly_all_different_are_refused() {
    let rows: String = (0..300).map(|k| format!("{k},word{}\n", k % 290)).collect();
    let message = Table::parse(format!("x,name\n{rows}")).unwrap().source("t", None, None).unwrap_err().to_string();
    assert!(message.contains("the column \"name\" has 290 classes in 300 rows"), "{message}");
    assert!(message.contains("help: choose another target"), "{message}");
    let numbers: String = (0..300).map(|k| format!("{k},{k}\n")).collect();
    let table = Table::parse(format!("x,id\n{numbers}")).unwrap();
    assert!(table.source("t", None, Some(true)).unwrap_err().to_string().contains("300 classes in 300 rows"));
    assert!(table.source("t", None, None).is_ok());
    let rows: String = (0..300).map(|k| format!("{k},word{}\n", k % 150)).collect();
    assert!(Table::parse(format!("x,name\n{rows}")).unwrap().source("t", None, None).is_ok());
}

#[test]
fn one_hot_vectors_are_limited_before_they_are_allocated() {
    let rows: String = (0..20_000).map(|k| format!("word{k},{}\n", k % 2)).collect();
    let table = Table::parse(format!("name,y\n{rows}")).unwrap();
    let message = table.source("t", None, None).unwrap_err().to_string();
    assert!(message.contains("20000 rows of 20000 features take 3200000000 bytes"), "{message}");
    assert!(message.contains("the column \"name\" alone has 20000 distinct words"), "{message}");
    let message = Reading::default().most_words(1000).parse(format!("name,y\n{rows}")).unwrap_err().to_string();
    assert!(message.contains("line 1002: there are more than 1000 distinct words"), "{message}");
}

#[test]
fn numbers_that_are_not_finite_are_refused() {
    for text in ["x,y\n1,2.5\n1e999,3.5\n", "x,y\n1,2.5\ninf,3.5\n", "x,y\n1,2.5\n2,-inf\n"] {
        let message = Table::parse(text).unwrap().source("t", None, Some(false)).unwrap_err().to_string();
        assert!(message.contains("line 3") && message.contains("not finite"), "{message}");
    }
}

#[test]
fn text_keeps_every_bit_of_a_number() {
    let key = glassgrad::rng::Key::new(5);
    let numbers: Vec<f64> = (0..2000)
        .map(|k| f64::from_bits(key.bits(k)))
        .filter(|number| !number.is_nan())
        .chain([-0.0, 5e-324])
        .collect();
    let table = Table::new([("x", Column::Numbers(numbers.clone()))]).unwrap();
    let read = Reading::default().header(true).parse(table.to_csv()).unwrap().numbers("x").unwrap();
    assert_eq!(
        read.iter().map(|x| x.to_bits()).collect::<Vec<_>>(),
        numbers.iter().map(|x| x.to_bits()).collect::<Vec<_>>()
    );
}
