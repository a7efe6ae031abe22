//! Compiles the BPF programs with clang (`CLANG` names another one) into `OUT_DIR`. Without it the crate is built all
//! the same, and says at run time what is missing. With `WITNESS_REQUIRED`, as for a release, the build fails instead.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

const FOLDER: &str = "bpf";
const SOURCE: &str = "witness.bpf.c";

fn main() {
    println!("cargo::rerun-if-env-changed=CLANG");
    println!("cargo::rerun-if-env-changed=WITNESS_REQUIRED");
    println!("cargo::rerun-if-changed={FOLDER}");
    println!("cargo::rerun-if-changed=build.rs");
    let out = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let object = Path::new(&out).join("witness.bpf.o");
    let why = compile(&object).err().unwrap_or_default();
    if !why.is_empty() {
        assert!(env::var_os("WITNESS_REQUIRED").is_none(), "no BPF programs: {why}");
        // A file that is not there has cargo look again at the next build.
        println!("cargo::rerun-if-changed={}", Path::new(&out).join("clang-is-missing").display());
        // Empty rather than absent, so that `include_bytes!` has something.
        fs::write(&object, []).expect("OUT_DIR can be written");
    }
    println!("cargo::rustc-env=WITNESS_NOT_BUILT={why}");
}

/// Why there are no programs, in one line.
fn compile(object: &Path) -> Result<(), String> {
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let architecture = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => "x86",
        Ok("aarch64") => "arm64",
        other => {
            return Err(format!("no programs for the architecture {}", other.unwrap_or("?")));
        }
    };
    // In the folder and by a relative name: the object then holds no path of the machine that built it.
    let output = Command::new(&clang)
        .current_dir(FOLDER)
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-fdebug-compilation-dir=."])
        .args(["-Wall", "-Wextra", "-Werror", &format!("-D__TARGET_ARCH_{architecture}")])
        .args(["-c", SOURCE, "-o"])
        .arg(object)
        .output()
        .map_err(|error| format!("built without clang ('{clang}': {error})"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let first = said.lines().find(|line| line.contains("error")).unwrap_or("it said nothing");
    Err(format!("'{clang}' could not compile the programs ({})", first.trim()))
}
