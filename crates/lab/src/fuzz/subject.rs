//! An instance as the subject of a plan, written once for both engines: Legato's API has wasmtime's names and shapes.

/// Defines `Engine`, a [`Subject`](super::observation::Subject), and `failed` for the crate `$engine`.
macro_rules! subject {
    ($engine:ident) => {
        use super::super::module::BUDGET;
        use super::super::observation::{Outcome, Subject, TrapKind, Value, memory_contents};
        use super::super::plan::{Argument, Hierarchy, PlannedCall};
        use ::$engine::{AnyRef, ExternRef, Global, I31, Instance, Ref, Store, ThrownException, Trap, Val};

        /// An instance with its store.
        pub(super) struct Engine {
            pub(super) store: Store<()>,
            pub(super) instance: Instance,
        }

        impl Engine {
            fn budget_global(&mut self) -> Global {
                self.instance.get_global(&mut self.store, BUDGET).expect("every module exports its budget")
            }
        }

        impl Subject for Engine {
            fn call(&mut self, call: &PlannedCall) -> Outcome {
                let Some(function) = self.instance.get_func(&mut self.store, &call.export) else {
                    return Outcome::Failure(format!("no function '{}'", call.export));
                };
                let arguments: Result<Vec<Val>, _> =
                    call.arguments.iter().map(|a| argument(&mut self.store, *a)).collect();
                let arguments = match arguments {
                    Ok(arguments) => arguments,
                    Err(error) => return failed(&error),
                };
                let mut results = vec![Val::I32(0); function.ty(&self.store).results().len()];
                match function.call(&mut self.store, &arguments, &mut results) {
                    Ok(()) => Outcome::Values(results.into_iter().map(|v| value(&mut self.store, v)).collect()),
                    Err(error) => {
                        // Not to be kept alive until the next one.
                        self.store.take_pending_exception();
                        failed(&error)
                    }
                }
            }

            fn set_budget(&mut self, budget: u32) {
                let global = self.budget_global();
                global.set(&mut self.store, Val::I32(budget as i32)).expect("the budget is a mutable i32");
            }

            fn budget(&mut self) -> u32 {
                self.budget_global().get(&mut self.store).unwrap_i32() as u32
            }

            fn global(&mut self, name: &str) -> Vec<Value> {
                let global = self.instance.get_global(&mut self.store, name).expect("an exported global");
                let global = global.get(&mut self.store);
                vec![value(&mut self.store, global)]
            }

            fn memory(&mut self, name: &str) -> Vec<Value> {
                let memory = self.instance.get_memory(&mut self.store, name).expect("an exported memory");
                memory_contents(memory.data(&self.store))
            }

            fn table(&mut self, name: &str) -> Vec<Value> {
                let table = self.instance.get_table(&mut self.store, name).expect("an exported table");
                let elements = 0..table.size(&self.store);
                elements
                    .map(|index| {
                        let element = table.get(&mut self.store, index).expect("an index within the table");
                        let element = match element {
                            Ref::Func(reference) => Val::FuncRef(reference),
                            Ref::Extern(reference) => Val::ExternRef(reference),
                            Ref::Any(reference) => Val::AnyRef(reference),
                            Ref::Exn(reference) => Val::ExnRef(reference),
                        };
                        value(&mut self.store, element)
                    })
                    .collect()
            }
        }

        fn argument(store: &mut Store<()>, argument: Argument) -> ::$engine::Result<Val> {
            Ok(match argument {
                Argument::I32(value) => Val::I32(value),
                Argument::I64(value) => Val::I64(value),
                Argument::F32(bits) => Val::F32(bits),
                Argument::F64(bits) => Val::F64(bits),
                Argument::V128(bits) => Val::V128(bits.into()),
                Argument::Null(Hierarchy::Any) => Val::AnyRef(None),
                Argument::Null(Hierarchy::Func) => Val::FuncRef(None),
                Argument::Null(Hierarchy::Extern) => Val::ExternRef(None),
                Argument::Null(Hierarchy::Exn) => Val::ExnRef(None),
                Argument::I31(value) => Val::AnyRef(Some(AnyRef::from_i31(store, I31::wrapping_u32(value)))),
                Argument::Extern(value) => Val::ExternRef(Some(ExternRef::new(store, value)?)),
            })
        }

        fn value(store: &mut Store<()>, value: Val) -> Value {
            match value {
                Val::I32(value) => Value::Bits32(value as u32),
                Val::F32(bits) => Value::Bits32(bits),
                Val::I64(value) => Value::Bits64(value as u64),
                Val::F64(bits) => Value::Bits64(bits),
                Val::V128(bits) => Value::Bits128(bits.as_u128()),
                Val::FuncRef(None) | Val::ExternRef(None) | Val::AnyRef(None) | Val::ExnRef(None) => Value::Null,
                Val::FuncRef(Some(_)) => Value::Func,
                Val::ExternRef(Some(_)) => Value::Extern,
                Val::ExnRef(Some(_)) => Value::Exn,
                Val::AnyRef(Some(reference)) => {
                    let rooted = "the reference belongs to this store";
                    if let Some(value) = reference.as_i31(&*store).expect(rooted) {
                        Value::I31(value.get_u32())
                    } else if let Some(array) = reference.as_array(&*store).expect(rooted) {
                        Value::Array(array.len(&*store).expect(rooted))
                    } else if reference.is_struct(&*store).expect(rooted) {
                        Value::Struct
                    } else {
                        Value::Extern
                    }
                }
                #[allow(unreachable_patterns, reason = "one engine has more kinds of values than the other")]
                _ => unreachable!("no module uses continuations"),
            }
        }

        /// What an error means.
        pub(super) fn failed(error: &::$engine::Error) -> Outcome {
            if error.is::<ThrownException>() {
                return Outcome::Exception;
            }
            let Some(trap) = error.downcast_ref::<Trap>() else {
                return Outcome::Inconclusive(format!("{error:#}"));
            };
            Outcome::Trap(match trap {
                Trap::UnreachableCodeReached => TrapKind::Unreachable,
                Trap::MemoryOutOfBounds => TrapKind::MemoryOutOfBounds,
                Trap::TableOutOfBounds => TrapKind::TableOutOfBounds,
                Trap::ArrayOutOfBounds => TrapKind::ArrayOutOfBounds,
                Trap::IndirectCallToNull => TrapKind::IndirectCallToNull,
                Trap::BadSignature => TrapKind::BadSignature,
                Trap::IntegerDivisionByZero => TrapKind::DivisionByZero,
                Trap::IntegerOverflow => TrapKind::IntegerOverflow,
                Trap::BadConversionToInteger => TrapKind::BadConversion,
                Trap::NullReference => TrapKind::NullReference,
                Trap::CastFailure => TrapKind::CastFailure,
                // Stack, heap, interrupts: the engine's own limits.
                other => return Outcome::Inconclusive(other.to_string()),
            })
        }
    };
}

pub(super) use subject;
