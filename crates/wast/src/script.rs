//! Executes the directives of one script.

use std::collections::HashMap;

use anyhow::{Context, Result, anyhow, bail, ensure};
use legato::{Engine, Extern, Instance, Linker, Module, Store, Trap, Val};
use wast::lexer::Lexer;
use wast::parser::{self, ParseBuffer};
use wast::{QuoteWat, Wast, WastDirective, WastExecute, WastInvoke};

use crate::{Counts, spectest, values};

/// What a script has defined so far.
struct Script {
    store: Store<()>,
    linker: Linker<()>,
    modules: HashMap<String, Module>,
    last_module: Option<Module>,
    instances: HashMap<String, Instance>,
    current: Option<Instance>,
}

/// What became of an action that instantiated or called.
enum Outcome {
    Values(Vec<Val>),
    Failed(anyhow::Error),
}

/// Runs every directive of the script `text` in one store. Each failure is passed to `report` with its line (from 1).
///
/// # Errors
/// If the text is no script, or the store cannot be made.
pub fn run(engine: &Engine, text: &str, mut report: impl FnMut(usize, anyhow::Error)) -> Result<Counts> {
    let mut lexer = Lexer::new(text);
    lexer.allow_confusing_unicode(true);
    let buffer = ParseBuffer::new_with_lexer(lexer)?;
    let wast = parser::parse::<Wast<'_>>(&buffer)?;
    let mut store = Store::try_new(engine, ())?;
    let mut linker = Linker::new(engine);
    spectest::define(&mut linker, &mut store)?;
    let mut script =
        Script { store, linker, modules: HashMap::new(), last_module: None, instances: HashMap::new(), current: None };
    let mut counts = Counts::default();
    for directive in wast.directives {
        let span = directive.span();
        match script.directive(directive) {
            Ok(()) => counts.passed += 1,
            Err(error) => {
                counts.failed += 1;
                report(span.linecol_in(text).0 + 1, error);
            }
        }
    }
    Ok(counts)
}

impl Script {
    fn directive(&mut self, directive: WastDirective<'_>) -> Result<()> {
        match directive {
            WastDirective::Module(mut module) => {
                let name = module.name().map(|id| id.name().to_string());
                let module = self.compile(&mut module)?;
                let instance = self.instantiate(&module)?;
                self.define(name, instance);
                Ok(())
            }
            WastDirective::ModuleDefinition(mut module) => {
                let name = module.name().map(|id| id.name().to_string());
                let module = self.compile(&mut module)?;
                if let Some(name) = name {
                    self.modules.insert(name, module.clone());
                }
                self.last_module = Some(module);
                Ok(())
            }
            WastDirective::ModuleInstance { instance, module, .. } => {
                let module = match module {
                    Some(id) => self.modules.get(id.name()).cloned(),
                    None => self.last_module.clone(),
                };
                let module = module.context("no such module definition")?;
                let made = self.instantiate(&module)?;
                self.define(instance.map(|id| id.name().to_string()), made);
                Ok(())
            }
            WastDirective::Register { name, module, .. } => {
                let instance = self.instance(module.map(|id| id.name()))?;
                self.linker.instance(&mut self.store, name, instance).map(drop)
            }
            WastDirective::Invoke(invoke) => match self.invoke(&invoke)? {
                Outcome::Values(_) => Ok(()),
                Outcome::Failed(error) => Err(error),
            },
            WastDirective::AssertReturn { exec, results, .. } => match self.execute(exec)? {
                Outcome::Values(actual) => values::check_results(&self.store, &actual, &results),
                Outcome::Failed(error) => Err(error.context("failed, but was to return")),
            },
            WastDirective::AssertTrap { exec, message, .. } => self.assert_trap(exec, message),
            WastDirective::AssertExhaustion { call, message, .. } => {
                self.assert_trap(WastExecute::Invoke(call), message)
            }
            WastDirective::AssertException { exec, .. } => match self.execute(exec)? {
                Outcome::Values(_) => bail!("returned, but was to throw"),
                Outcome::Failed(error) => {
                    ensure!(error.is::<legato::ThrownException>(), "failed without an exception: {error:?}");
                    self.store.take_pending_exception();
                    Ok(())
                }
            },
            WastDirective::AssertUnlinkable { module, message, .. } => {
                let module = self.compile(&mut QuoteWat::Wat(module))?;
                match self.instantiate(&module) {
                    Ok(_) => bail!("was linked, but was to fail: {message}"),
                    Err(error) => expect_message(&error, message),
                }
            }
            WastDirective::AssertInvalid { mut module, message, .. }
            | WastDirective::AssertMalformed { mut module, message, .. } => match self.compile(&mut module) {
                Ok(_) => bail!("was accepted, but was to be rejected: {message}"),
                Err(_) => Ok(()),
            },
            // The text format's annotations and custom sections: rejected where the text is parsed.
            WastDirective::AssertMalformedCustom { mut module, message, .. }
            | WastDirective::AssertInvalidCustom { mut module, message, .. } => match module.encode() {
                Ok(_) => bail!("was accepted, but was to be rejected: {message}"),
                Err(_) => Ok(()),
            },
            other
            @ (WastDirective::Thread(_) | WastDirective::Wait { .. } | WastDirective::AssertSuspension { .. }) => {
                bail!("unsupported directive {other:?}")
            }
        }
    }

    fn assert_trap(&mut self, exec: WastExecute<'_>, message: &str) -> Result<()> {
        match self.execute(exec)? {
            Outcome::Values(values) => bail!("returned {values:?}, but was to trap: {message}"),
            Outcome::Failed(error) => {
                ensure!(error.is::<Trap>(), "failed without a trap: {error:?}");
                expect_message(&error, message)
            }
        }
    }

    fn compile(&mut self, module: &mut QuoteWat<'_>) -> Result<Module> {
        let bytes = module.encode()?;
        Module::new(self.store.engine(), bytes)
    }

    fn instantiate(&mut self, module: &Module) -> Result<Instance> {
        self.linker.instantiate(&mut self.store, module)
    }

    fn define(&mut self, name: Option<String>, instance: Instance) {
        if let Some(name) = name {
            self.instances.insert(name, instance);
        }
        self.current = Some(instance);
    }

    fn instance(&self, name: Option<&str>) -> Result<Instance> {
        match name {
            Some(name) => self.instances.get(name).copied().ok_or_else(|| anyhow!("no instance named {name}")),
            None => self.current.context("no instance"),
        }
    }

    fn execute(&mut self, exec: WastExecute<'_>) -> Result<Outcome> {
        match exec {
            WastExecute::Invoke(invoke) => self.invoke(&invoke),
            WastExecute::Wat(module) => {
                let module = self.compile(&mut QuoteWat::Wat(module))?;
                Ok(match self.instantiate(&module) {
                    Ok(_) => Outcome::Values(Vec::new()),
                    Err(error) => Outcome::Failed(error),
                })
            }
            WastExecute::Get { module, global, .. } => {
                let instance = self.instance(module.map(|id| id.name()))?;
                match instance.get_export(&mut self.store, global) {
                    Some(Extern::Global(global)) => Ok(Outcome::Values(vec![global.get(&mut self.store)])),
                    _ => bail!("no global named {global}"),
                }
            }
        }
    }

    fn invoke(&mut self, invoke: &WastInvoke<'_>) -> Result<Outcome> {
        let instance = self.instance(invoke.module.map(|id| id.name()))?;
        let function = instance
            .get_func(&mut self.store, invoke.name)
            .with_context(|| format!("no function named {}", invoke.name))?;
        let mut arguments = Vec::new();
        for argument in &invoke.args {
            arguments.push(values::argument(&mut self.store, argument)?);
        }
        let mut results = vec![Val::I32(0); function.ty(&self.store).results().len()];
        Ok(match function.call(&mut self.store, &arguments, &mut results) {
            Ok(()) => Outcome::Values(results),
            Err(error) => Outcome::Failed(error),
        })
    }
}

/// The suite's messages are contained in the engine's, but for what an engine does not find out when the hardware finds
/// the fault: which kind of reference was null, which table element.
fn expect_message(error: &anyhow::Error, message: &str) -> Result<()> {
    let general = match message {
        "null structure reference"
        | "null array reference"
        | "null i31 reference"
        | "null function reference"
        | "null exception reference" => "null reference",
        _ if message.starts_with("uninitialized element ") => "uninitialized element",
        _ => message,
    };
    let text = format!("{error:#}");
    ensure!(text.contains(general), "failed with `{text}`, expected `{message}`");
    Ok(())
}
