//! Names of models for people.

use super::DType;
use std::path::Path;

/// The file's own name for the model, or the file's name.
pub(crate) fn of_file(name: Option<&str>, path: &Path, dtype: DType) -> String {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    with_dtype(name.filter(|name| !name.trim().is_empty()).map(str::to_owned).or(stem), dtype)
}

/// The last part of the folder's own name for the model, or of its path.
pub(crate) fn of_folder(name: Option<&str>, folder: &Path, dtype: DType) -> String {
    let own = name.and_then(|name| name.trim_end_matches('/').rsplit('/').next());
    let own = own.filter(|name| !name.trim().is_empty()).map(str::to_owned);
    with_dtype(own.or_else(|| of_path(folder)), dtype)
}

/// A folder in a Hugging Face cache is `models--ORG--NAME/snapshots/REVISION`; elsewhere its own name says most.
fn of_path(folder: &Path) -> Option<String> {
    let cached = folder.ancestors().nth(2).and_then(Path::file_name).and_then(|name| name.to_str());
    let cached = cached.filter(|name| name.starts_with("models--")).and_then(|name| name.rsplit("--").next());
    cached.map(str::to_owned).or_else(|| folder.file_name().map(|name| name.to_string_lossy().into_owned()))
}

fn with_dtype(name: Option<String>, dtype: DType) -> String {
    let name = name.filter(|name| !name.trim().is_empty()).unwrap_or_else(|| "model".into());
    let name: String = name.trim().chars().filter(|c| !c.is_control()).take(120).collect();
    let dtype = format!("{dtype:?}");
    if name.to_uppercase().contains(&dtype) { name } else { format!("{name} {dtype}") }
}
