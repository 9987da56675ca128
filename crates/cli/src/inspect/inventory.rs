//! Counting a module's parts.

use std::path::Path;

use anyhow::{Context, Result};
use wasmparser::{
    BlockType, CompositeInnerType, ConstExpr, ExternalKind, FuncType, GlobalType, MemoryType, Operator, Parser,
    Payload, StorageType, SubType, TableType, TypeRef, Validator, WasmFeatures,
};

use super::features::Features;

/// What a module is made of. Imported things are counted with their kind, functions apart.
#[derive(Debug, Default)]
pub struct Inventory {
    pub name: Option<String>,
    pub function_types: usize,
    pub struct_types: usize,
    pub array_types: usize,
    /// Those of more than one type.
    pub rec_groups: usize,
    pub imported_functions: usize,
    pub functions: usize,
    pub code_bytes: usize,
    pub memories: usize,
    pub tables: usize,
    pub globals: usize,
    pub tags: usize,
    pub data_segments: usize,
    pub element_segments: usize,
    pub start: Option<u32>,
    pub custom: Vec<String>,
    /// Name and type.
    pub imports: Vec<(String, String)>,
    /// Name and type.
    pub exports: Vec<(String, String)>,
    pub features: Features,
    /// All types' texts, and for functions, globals and so on what they are: to describe exports.
    types: Vec<String>,
    function_index: Vec<u32>,
    memory_index: Vec<String>,
    table_index: Vec<String>,
    global_index: Vec<String>,
    tag_index: Vec<u32>,
}

impl Inventory {
    /// Validates and counts.
    ///
    /// # Errors
    ///
    /// If the module is invalid even with every proposal that the validator knows.
    pub fn of(path: &Path, bytes: &[u8]) -> Result<Self> {
        Validator::new_with_features(WasmFeatures::all())
            .validate_all(bytes)
            .with_context(|| format!("{} is not a valid WebAssembly module", path.display()))?;
        let mut inventory = Inventory::default();
        for payload in Parser::new(0).parse_all(bytes) {
            inventory.payload(payload?)?;
        }
        Ok(inventory)
    }

    fn payload(&mut self, payload: Payload<'_>) -> Result<()> {
        match payload {
            Payload::TypeSection(section) => {
                for group in section {
                    let types: Vec<SubType> = group?.into_types().collect();
                    if types.len() > 1 {
                        self.rec_groups += 1;
                        self.features.note("gc", "recursion groups");
                    }
                    types.iter().for_each(|ty| self.ty(ty));
                }
            }
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    let import = import?;
                    let ty = self.import(&import.ty);
                    self.imports.push((format!("{}.{}", import.module, import.name), ty));
                }
            }
            Payload::FunctionSection(section) => {
                for ty in section {
                    self.function_index.push(ty?);
                    self.functions += 1;
                }
            }
            Payload::TableSection(section) => {
                for table in section {
                    self.table(&table?.ty);
                }
            }
            Payload::MemorySection(section) => {
                for memory in section {
                    self.memory(&memory?);
                }
            }
            Payload::TagSection(section) => {
                for tag in section {
                    self.tag(tag?.func_type_idx);
                }
            }
            Payload::GlobalSection(section) => {
                for global in section {
                    let global = global?;
                    self.global(&global.ty);
                    self.constant(&global.init_expr)?;
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    let export = export?;
                    let ty = self.export(export.kind, export.index);
                    self.exports.push((export.name.to_string(), ty));
                }
            }
            Payload::StartSection { func, .. } => self.start = Some(func),
            Payload::ElementSection(section) => self.element_segments = section.count() as usize,
            Payload::DataSection(section) => self.data_segments = section.count() as usize,
            Payload::CodeSectionEntry(body) => {
                self.code_bytes += body.as_bytes().len();
                for local in body.get_locals_reader()? {
                    self.features.value_type(local?.1);
                }
                let mut operators = body.get_operators_reader()?;
                while !operators.eof() {
                    let operator = operators.read()?;
                    self.operator(&operator);
                }
            }
            Payload::CustomSection(section) => {
                self.custom.push(section.name().to_string());
                if let wasmparser::KnownCustom::Name(names) = section.as_known() {
                    for name in names {
                        // A broken name section is the name section's own affair.
                        if let Ok(wasmparser::Name::Module { name, .. }) = name {
                            self.name = Some(name.to_string());
                        }
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn ty(&mut self, ty: &SubType) {
        self.types.push(plain_indices(&ty.to_string()));
        if ty.supertype_idxs.is_empty() && ty.is_final {
            // As before gc.
        } else {
            self.features.note("gc", "subtypes");
        }
        match &ty.composite_type.inner {
            CompositeInnerType::Func(function) => {
                self.function_types += 1;
                self.signature(function);
            }
            CompositeInnerType::Struct(structure) => {
                self.struct_types += 1;
                self.features.note("gc", "structs");
                structure.fields.iter().for_each(|field| self.storage(field.element_type));
            }
            CompositeInnerType::Array(array) => {
                self.array_types += 1;
                self.features.note("gc", "arrays");
                self.storage(array.0.element_type);
            }
            CompositeInnerType::Cont(_) => self.features.note("stack-switching", "continuations"),
        }
    }

    fn signature(&mut self, function: &FuncType) {
        if function.results().len() > 1 {
            self.features.note("multi-value", "several results");
        }
        function.params().iter().chain(function.results()).for_each(|ty| self.features.value_type(*ty));
    }

    fn storage(&mut self, ty: StorageType) {
        if let StorageType::Val(ty) = ty {
            self.features.value_type(ty);
        }
    }

    fn import(&mut self, ty: &TypeRef) -> String {
        match ty {
            TypeRef::Func(index) | TypeRef::FuncExact(index) => {
                self.imported_functions += 1;
                self.function_index.push(*index);
                self.type_text(*index)
            }
            TypeRef::Table(table) => self.table(table),
            TypeRef::Memory(memory) => self.memory(memory),
            TypeRef::Global(global) => {
                if global.mutable {
                    self.features.note("mutable-globals", "imported");
                }
                self.global(global)
            }
            TypeRef::Tag(tag) => self.tag(tag.func_type_idx),
        }
    }

    fn export(&mut self, kind: ExternalKind, index: u32) -> String {
        let at = index as usize;
        let text = match kind {
            ExternalKind::Func | ExternalKind::FuncExact => self.function_index.get(at).map(|ty| self.type_text(*ty)),
            ExternalKind::Table => self.table_index.get(at).cloned(),
            ExternalKind::Memory => self.memory_index.get(at).cloned(),
            ExternalKind::Global => self.global_index.get(at).cloned(),
            ExternalKind::Tag => self.tag_index.get(at).map(|ty| format!("(tag {})", self.type_text(*ty))),
        };
        text.unwrap_or_default()
    }

    fn type_text(&self, index: u32) -> String {
        self.types.get(index as usize).cloned().unwrap_or_default()
    }

    fn table(&mut self, table: &TableType) -> String {
        self.tables += 1;
        if self.tables > 1 {
            self.features.note("reference-types", "several tables");
        }
        if table.table64 {
            self.features.note("table64", "64-bit table");
        }
        self.features.reference_type(table.element_type);
        let size = limits(table.initial, table.maximum);
        let text = format!("(table {size}{})", plain_indices(&table.element_type.to_string()));
        self.table_index.push(text.clone());
        text
    }

    fn memory(&mut self, memory: &MemoryType) -> String {
        self.memories += 1;
        if self.memories > 1 {
            self.features.note("multi-memory", "several memories");
        }
        if memory.memory64 {
            self.features.note("memory64", "64-bit memory");
        }
        if memory.shared {
            self.features.note("threads", "shared memory");
        }
        if memory.page_size_log2.is_some() {
            self.features.note("custom-page-sizes", "page size");
        }
        let bits = if memory.memory64 { "i64 " } else { "" };
        let text = format!("(memory {bits}{})", limits(memory.initial, memory.maximum).trim_end());
        self.memory_index.push(text.clone());
        text
    }

    fn global(&mut self, global: &GlobalType) -> String {
        self.globals += 1;
        self.features.value_type(global.content_type);
        let content = plain_indices(&global.content_type.to_string());
        let text = match global.mutable {
            true => format!("(global (mut {content}))"),
            false => format!("(global {content})"),
        };
        self.global_index.push(text.clone());
        text
    }

    fn tag(&mut self, ty: u32) -> String {
        self.tags += 1;
        self.features.note("exception-handling", "tags");
        self.tag_index.push(ty);
        format!("(tag {})", self.type_text(ty))
    }

    fn constant(&mut self, expression: &ConstExpr<'_>) -> Result<()> {
        for operator in expression.get_operators_reader() {
            match operator? {
                Operator::I32Add
                | Operator::I32Sub
                | Operator::I32Mul
                | Operator::I64Add
                | Operator::I64Sub
                | Operator::I64Mul => self.features.note("extended-const", "arithmetic in initialisers"),
                Operator::End | Operator::GlobalGet { .. } => {}
                operator => self.operator(&operator),
            }
        }
        Ok(())
    }

    fn operator(&mut self, operator: &Operator<'_>) {
        self.features.operator(operator);
        if let Operator::Block { blockty } | Operator::Loop { blockty } | Operator::If { blockty } = operator
            && let BlockType::FuncType(_) = blockty
        {
            self.features.note("multi-value", "blocks with parameters");
        }
    }
}

/// `(module 4)`, as the parser writes a type of the module, is 4 in text form.
fn plain_indices(text: &str) -> String {
    let mut parts = text.split("(module ");
    let mut plain = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let (index, rest) = part.split_once(')').unwrap_or((part, ""));
        plain.push_str(index);
        plain.push_str(rest);
    }
    plain
}

fn limits(minimum: u64, maximum: Option<u64>) -> String {
    match maximum {
        Some(maximum) => format!("{minimum} {maximum} "),
        None => format!("{minimum} "),
    }
}
