//! Reads and validates everything of a module but the function bodies, which it hands on.

use wasmparser as wp;
use wasmparser::{
    FuncToValidate, FuncValidator, FuncValidatorAllocations, FunctionBody, Parser, Payload, ValidPayload, Validator,
    ValidatorResources, WasmFeatures,
};

use super::const_expr::read_const_expr;
use super::convert::{TypeMap, TypeSpace};
use super::names::read_names;
use super::{
    ConstExpr, ConstOp, DataSegment, DefinedGlobal, DefinedTable, ElementItems, ElementMode, ElementSegment,
    ExportKind, FuncIndex, Function, GlobalIndex, HeapType, Import, ImportKind, MemoryIndex, ModuleInfo, RefType,
    TableIndex, TagIndex, TypeIndex,
};
use crate::error::invalid;
use crate::{CompileError, Features};

/// What the engine accepts: WebAssembly 3.0 without threads. Vector instructions pass validation, so that they can be
/// refused by name.
const FEATURES: WasmFeatures = WasmFeatures::WASM3.difference(WasmFeatures::THREADS);

/// A function body that is yet to be validated.
pub struct FunctionSource<'a> {
    /// Index of the function in the module.
    pub index: FuncIndex,
    /// The body.
    pub body: FunctionBody<'a>,
    /// The validator's view of the module.
    pub validation: FuncToValidate<ValidatorResources>,
}

impl FunctionSource<'_> {
    /// A validator for the body, with memory of former ones.
    pub(crate) fn validator(&self, allocations: &mut FuncValidatorAllocations) -> FuncValidator<ValidatorResources> {
        let validation = FuncToValidate {
            resources: self.validation.resources.clone(),
            index: self.validation.index,
            ty: self.validation.ty,
            features: self.validation.features,
        };
        validation.into_validator(std::mem::take(allocations))
    }
}

/// A module whose declarations are valid, and its bodies.
pub struct ParsedModule<'a> {
    /// The declarations.
    pub info: ModuleInfo,
    /// The bodies of the defined functions, in order.
    pub bodies: Vec<FunctionSource<'a>>,
}

impl<'a> ParsedModule<'a> {
    /// What modules may use.
    pub(crate) fn accepted(features: Features) -> WasmFeatures {
        let mut accepted = FEATURES;
        accepted.set(WasmFeatures::MULTI_MEMORY, features.multi_memory);
        accepted
    }

    /// Reads a module in binary form and validates its declarations. Fails at the first place that is invalid or not
    /// supported.
    pub fn parse(wasm: &'a [u8], features: Features) -> Result<ParsedModule<'a>, CompileError> {
        if u32::try_from(wasm.len()).is_err() {
            return Err(CompileError::Unsupported { what: "modules of 4 GiB and more".to_string(), offset: 0 });
        }
        let accepted = ParsedModule::accepted(features);
        let mut validator = Validator::new_with_features(accepted);
        let mut parser = Parser::new(0);
        parser.set_features(accepted);
        let mut builder = Builder::default();
        for payload in parser.parse_all(wasm) {
            let payload = payload.map_err(invalid)?;
            match validator.payload(&payload).map_err(invalid)? {
                ValidPayload::Func(validation, body) => {
                    builder.bodies.push(FunctionSource { index: FuncIndex(validation.index), body, validation })
                }
                ValidPayload::Parser(_) => return Err(not_a_module()),
                ValidPayload::Ok | ValidPayload::End(_) => {}
            }
            builder.payload(payload)?;
        }
        Ok(builder.finish())
    }
}

fn not_a_module() -> CompileError {
    CompileError::Unsupported { what: "components".to_string(), offset: 0 }
}

#[derive(Default)]
struct Builder<'a> {
    types: TypeSpace,
    info: ModuleInfo,
    bodies: Vec<FunctionSource<'a>>,
    name_section: Option<&'a [u8]>,
}

impl<'a> Builder<'a> {
    fn map(&self) -> TypeMap<'_> {
        TypeMap { canonical: &self.types.canonical }
    }

    fn expr(&self, expr: &wp::ConstExpr<'_>) -> Result<ConstExpr, CompileError> {
        read_const_expr(expr, self.map())
    }

    /// Takes over a section that has been validated.
    fn payload(&mut self, payload: Payload<'a>) -> Result<(), CompileError> {
        match payload {
            Payload::Version { encoding: wp::Encoding::Component, .. } => return Err(not_a_module()),
            Payload::TypeSection(section) => {
                for group in section.into_iter_with_offsets() {
                    let (offset, group) = group.map_err(invalid)?;
                    self.types.add_group(&group, offset as usize)?;
                }
            }
            Payload::ImportSection(section) => {
                for import in section.into_imports_with_offsets() {
                    let (offset, import) = import.map_err(invalid)?;
                    self.import(&import, offset as usize)?;
                }
            }
            Payload::FunctionSection(section) => {
                for ty in section {
                    let ty = self.map().index(ty.map_err(invalid)?);
                    self.info.functions.push(Function { ty, func_ref: None });
                }
            }
            Payload::TableSection(section) => {
                for table in section.into_iter_with_offsets() {
                    let (offset, table) = table.map_err(invalid)?;
                    let ty = self.map().table(&table.ty, offset as usize)?;
                    let init = match &table.init {
                        wp::TableInit::RefNull => None,
                        wp::TableInit::Expr(expr) => Some(self.expr(expr)?),
                    };
                    self.info.tables.push(ty);
                    self.info.defined_tables.push(DefinedTable { ty, init });
                }
            }
            Payload::MemorySection(section) => {
                for memory in section.into_iter_with_offsets() {
                    let (offset, memory) = memory.map_err(invalid)?;
                    let ty = self.map().memory(&memory, offset as usize)?;
                    self.info.memories.push(ty);
                }
            }
            Payload::TagSection(section) => {
                for tag in section {
                    let ty = self.map().index(tag.map_err(invalid)?.func_type_idx);
                    self.info.tags.push(ty);
                }
            }
            Payload::GlobalSection(section) => {
                for global in section.into_iter_with_offsets() {
                    let (offset, global) = global.map_err(invalid)?;
                    let ty = self.map().global(&global.ty, offset as usize)?;
                    let init = self.expr(&global.init_expr)?;
                    self.info.globals.push(ty);
                    self.info.defined_globals.push(DefinedGlobal { ty, init });
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    let export = export.map_err(invalid)?;
                    let kind = match export.kind {
                        wp::ExternalKind::Func | wp::ExternalKind::FuncExact => {
                            ExportKind::Func(FuncIndex(export.index))
                        }
                        wp::ExternalKind::Table => ExportKind::Table(TableIndex(export.index)),
                        wp::ExternalKind::Memory => ExportKind::Memory(MemoryIndex(export.index)),
                        wp::ExternalKind::Global => ExportKind::Global(GlobalIndex(export.index)),
                        wp::ExternalKind::Tag => ExportKind::Tag(TagIndex(export.index)),
                    };
                    self.info.exports.push((export.name.to_string(), kind));
                }
            }
            Payload::StartSection { func, .. } => self.info.start = Some(FuncIndex(func)),
            Payload::ElementSection(section) => {
                for element in section.into_iter_with_offsets() {
                    let (offset, element) = element.map_err(invalid)?;
                    self.element(&element, offset as usize)?;
                }
            }
            Payload::DataSection(section) => {
                for data in section {
                    let data = data.map_err(invalid)?;
                    let active = match &data.kind {
                        wp::DataKind::Passive => None,
                        wp::DataKind::Active { memory_index, offset_expr } => {
                            Some((MemoryIndex(*memory_index), self.expr(offset_expr)?))
                        }
                    };
                    self.info.data.push(DataSegment { active, bytes: data.data.to_vec() });
                }
            }
            Payload::CustomSection(section) if section.name() == "name" => self.name_section = Some(section.data()),
            Payload::CustomSection(section) => {
                self.info.custom.push((section.name().to_string(), section.data().to_vec()));
            }
            _ => {}
        }
        Ok(())
    }

    fn import(&mut self, import: &wp::Import<'_>, offset: usize) -> Result<(), CompileError> {
        let map = TypeMap { canonical: &self.types.canonical };
        let info = &mut self.info;
        let kind = match &import.ty {
            wp::TypeRef::Func(ty) | wp::TypeRef::FuncExact(ty) => {
                let ty = map.index(*ty);
                info.functions.push(Function { ty, func_ref: None });
                info.imported_functions += 1;
                ImportKind::Func(ty)
            }
            wp::TypeRef::Table(ty) => {
                let ty = map.table(ty, offset)?;
                info.tables.push(ty);
                info.imported_tables += 1;
                ImportKind::Table(ty)
            }
            wp::TypeRef::Memory(ty) => {
                let ty = map.memory(ty, offset)?;
                info.memories.push(ty);
                info.imported_memories += 1;
                ImportKind::Memory(ty)
            }
            wp::TypeRef::Global(ty) => {
                let ty = map.global(ty, offset)?;
                info.globals.push(ty);
                info.imported_globals += 1;
                ImportKind::Global(ty)
            }
            wp::TypeRef::Tag(ty) => {
                let ty = map.index(ty.func_type_idx);
                info.tags.push(ty);
                info.imported_tags += 1;
                ImportKind::Tag(ty)
            }
        };
        info.imports.push(Import { module: import.module.to_string(), name: import.name.to_string(), kind });
        Ok(())
    }

    fn element(&mut self, element: &wp::Element<'_>, offset: usize) -> Result<(), CompileError> {
        let mode = match &element.kind {
            wp::ElementKind::Passive => ElementMode::Passive,
            wp::ElementKind::Declared => ElementMode::Declared,
            wp::ElementKind::Active { table_index, offset_expr } => {
                ElementMode::Active(TableIndex(table_index.unwrap_or(0)), self.expr(offset_expr)?)
            }
        };
        let (ty, items) = match &element.items {
            wp::ElementItems::Functions(functions) => {
                let functions = functions
                    .clone()
                    .into_iter()
                    .map(|index| index.map(FuncIndex).map_err(invalid))
                    .collect::<Result<_, _>>()?;
                (RefType::non_null(HeapType::Func), ElementItems::Functions(functions))
            }
            wp::ElementItems::Expressions(ty, expressions) => {
                let ty = self.map().reference(*ty, offset)?;
                let expressions = expressions
                    .clone()
                    .into_iter()
                    .map(|expr| self.expr(&expr.map_err(invalid)?))
                    .collect::<Result<_, _>>()?;
                (ty, ElementItems::Expressions(expressions))
            }
        };
        self.info.elements.push(ElementSegment { mode, ty, items });
        Ok(())
    }

    fn finish(mut self) -> ParsedModule<'a> {
        self.info.types = self.types.types;
        self.info.canonical_types = self.types.canonical;
        self.info.extended_types = self.info.types.iter().filter_map(|ty| ty.supertype).collect();
        self.info.extended_types.sort_unstable();
        self.info.extended_types.dedup();
        if let Some(data) = self.name_section {
            self.info.names = read_names(data, &self.info);
        }
        number_func_refs(&mut self.info);
        ParsedModule { info: self.info, bodies: self.bodies }
    }
}

/// Gives an index to every function that can become a reference. A body may use `ref.func` only of a function that is
/// named outside the bodies, so that the declarations tell all.
fn number_func_refs(info: &mut ModuleInfo) {
    let mut escapes = vec![false; info.functions.len()];
    for (_, kind) in &info.exports {
        if let ExportKind::Func(index) = kind {
            escapes[index.index()] = true;
        }
    }
    let mut expr = |ops: &ConstExpr| {
        for op in ops {
            if let ConstOp::RefFunc(index) = op {
                escapes[index.index()] = true;
            }
        }
    };
    info.defined_globals.iter().for_each(|global| expr(&global.init));
    info.defined_tables.iter().filter_map(|table| table.init.as_ref()).for_each(&mut expr);
    info.data.iter().filter_map(|data| data.active.as_ref()).for_each(|(_, offset)| expr(offset));
    for element in &info.elements {
        if let ElementMode::Active(_, offset) = &element.mode {
            expr(offset);
        }
        if let ElementItems::Expressions(expressions) = &element.items {
            expressions.iter().for_each(&mut expr);
        }
    }
    for element in &info.elements {
        if let ElementItems::Functions(functions) = &element.items {
            functions.iter().for_each(|index| escapes[index.index()] = true);
        }
    }
    let mut count = 0;
    for (function, _) in info.functions.iter_mut().zip(escapes).filter(|(_, escapes)| *escapes) {
        function.func_ref = Some(count);
        count += 1;
    }
    info.func_ref_count = count;
}

/// The type of a defined or imported function.
impl ModuleInfo {
    /// The type index of a function.
    pub fn type_of(&self, function: FuncIndex) -> TypeIndex {
        self.functions[function.index()].ty
    }
}
