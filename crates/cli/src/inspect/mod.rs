//! `legato inspect`: what a module is made of.

mod features;
mod inventory;

use std::fmt::Write as _;

use anyhow::{Context, Result};
use legato::{Engine, Precompiled};

use crate::args::InspectArgs;
use crate::load::{self, Content};
use crate::report;
use inventory::Inventory;

/// Prints what is in the file.
///
/// # Errors
///
/// If it cannot be read or is not a valid module.
pub fn inspect(args: &InspectArgs) -> Result<()> {
    let content = load::read(&args.file)?;
    let name = args.file.display();
    let report = match &content {
        Content::Wasm(bytes) => {
            let mut report = format!("{name}: WebAssembly module, {} bytes\n", bytes.len());
            describe(&mut report, &Inventory::of(&args.file, bytes)?);
            report
        }
        Content::Precompiled(bytes) => {
            let mut report = format!("{name}: precompiled module, {} bytes\n", bytes.len());
            let module = Precompiled::read(&Engine::default(), bytes).with_context(|| format!("cannot read {name}"))?;
            let _ = writeln!(report, "  {:<12}{} bytes of machine code", "functions", module.code_size());
            let imports: Vec<_> = module
                .imports()
                .map(|import| (format!("{}.{}", import.module(), import.name()), import.ty().to_string()))
                .collect();
            let exports: Vec<_> =
                module.exports().map(|export| (export.name().to_string(), export.ty().to_string())).collect();
            list(&mut report, "imports", &imports);
            list(&mut report, "exports", &exports);
            report
        }
    };
    report::print(&report)
}

fn describe(report: &mut String, inventory: &Inventory) {
    let mut line = |title: &str, text: String| {
        if !text.is_empty() {
            let _ = writeln!(report, "  {title:<12}{text}");
        }
    };
    let counts = |parts: &[(usize, &str)]| {
        let parts: Vec<_> =
            parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        parts.join(", ")
    };
    line("name", inventory.name.clone().unwrap_or_default());
    line(
        "types",
        counts(&[
            (inventory.function_types, "of functions"),
            (inventory.struct_types, "of structs"),
            (inventory.array_types, "of arrays"),
            (inventory.rec_groups, "recursion groups"),
        ]),
    );
    line(
        "functions",
        counts(&[
            (inventory.imported_functions, "imported"),
            (inventory.functions, "defined"),
            (inventory.code_bytes, "bytes of code"),
        ]),
    );
    line(
        "others",
        counts(&[
            (inventory.memories, "memories"),
            (inventory.tables, "tables"),
            (inventory.globals, "globals"),
            (inventory.tags, "tags"),
            (inventory.data_segments, "data segments"),
            (inventory.element_segments, "element segments"),
        ]),
    );
    line("start", inventory.start.map_or(String::new(), |index| format!("function {index}")));
    line("custom", inventory.custom.join(", "));
    if !inventory.features.lines().is_empty() {
        report.push_str("features\n");
        for feature in inventory.features.lines() {
            let _ = writeln!(report, "  {feature}");
        }
    }
    list(report, "imports", &inventory.imports);
    list(report, "exports", &inventory.exports);
}

fn list(report: &mut String, title: &str, items: &[(String, String)]) {
    if items.is_empty() {
        return;
    }
    let width = items.iter().map(|(name, _)| name.len()).max().unwrap_or(0).min(40);
    let _ = writeln!(report, "{title}");
    for (name, ty) in items {
        let _ = writeln!(report, "  {name:<width$}  {ty}");
    }
}
