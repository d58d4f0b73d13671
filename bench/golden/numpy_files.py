"""Writes the files of NumPy that crates/glassgrad/tests/data_files/numpy.rs reads.

    python bench/golden/numpy_files.py crates/glassgrad/tests/golden/numpy
"""

import pathlib
import sys

import numpy as np

folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)

numbers = np.arange(24).reshape(2, 3, 4)
arrays = {
    "f32": (numbers / 4).astype(np.float32),
    "f64": numbers / 8,
    "i32": (numbers - 12).astype(np.int32),
    "i64": numbers - (1 << 40),
    "u8": (numbers * 10).astype(np.uint8),
    "bool": numbers % 3 == 0,
    "fortran": np.asfortranarray(numbers / 8),
    "scalar": np.float64(2.5),
    "none": np.zeros((0, 3), dtype=np.float32),
}
np.savez(folder / "stored.npz", **arrays)
np.savez_compressed(folder / "deflated.npz", **arrays)
for version in [(1, 0), (2, 0), (3, 0)]:
    with open(folder / f"version{version[0]}.npy", "wb") as file:
        np.lib.format.write_array(file, np.asfortranarray(arrays["i32"]), version=version)
np.save(folder / "big_endian.npy", numbers.astype(">f8"))
