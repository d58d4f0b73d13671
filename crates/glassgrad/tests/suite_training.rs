//! Data, layers, losses, optimizers and training. One program, since each costs a linking.

// Files include the judges that they need, so that each can also be a program of its own.
#![allow(clippy::duplicate_mod)]

mod data_files;
mod distributed;
mod learning;
mod networks;
mod optim;
mod optim_links;
mod synthetic;
mod training;
