//! The answer of a built component to `describe` of `hexad:platform/area`. All imports fail, because `describe` must
//! answer without storage and configuration.

use wasmi::{Engine, Error, ExternType, Instance, Linker, Module, Store};
use wasmparser::{Parser, Payload};

const DESCRIBE: &str = "hexad:platform/area@0.1.0#describe";

/// `description` of `wit/platform.wit`.
#[derive(Debug)]
pub struct Description {
    pub area: String,
    pub storage: Vec<Storage>,
}

/// `storage` of `wit/platform.wit`.
#[derive(Debug)]
pub struct Storage {
    pub prefix: String,
    pub reads: Vec<u32>,
    pub writes: Option<u32>,
}

/// The core module of a component that exports `describe`.
fn core_module(component: &[u8]) -> &[u8] {
    let modules = Parser::new(0).parse_all(component).filter_map(|payload| match payload.expect("a valid component") {
        Payload::ModuleSection { unchecked_range, .. } => component.get(unchecked_range),
        _ => None,
    });
    let exports_it = |module: &&[u8]| {
        Parser::new(0).parse_all(module).any(|payload| match payload.expect("a valid module") {
            Payload::ExportSection(exports) => {
                exports.into_iter().any(|export| export.is_ok_and(|export| export.name == DESCRIBE))
            }
            _ => false,
        })
    };
    modules.into_iter().find(exports_it).expect("a core module that exports `describe`")
}

pub fn describe(component: &[u8]) -> Description {
    let engine = Engine::default();
    let module = Module::new(&engine, core_module(component)).expect("a valid module");
    let mut store = Store::new(&engine, ());
    let mut linker = Linker::new(&engine);
    for import in module.imports() {
        let (from, name) = (import.module().to_owned(), import.name().to_owned());
        let ExternType::Func(function) = import.ty() else { panic!("{from} {name} is not a function") };
        let refusal = format!("`describe` called {from} {name}");
        let refuse =
            move |_: wasmi::Caller<'_, ()>, _: &[wasmi::Val], _: &mut [wasmi::Val]| Err(Error::new(refusal.clone()));
        linker.func_new(&from, &name, function.clone(), refuse).expect("a function of its own");
    }
    let instance = linker.instantiate_and_start(&mut store, &module).expect("an instance");
    let call = instance.get_typed_func::<(), i32>(&store, DESCRIBE).expect("a function without parameters");
    let address = call.call(&mut store, ()).expect("a description");
    let memory = Memory::of(&instance, &store);
    // A record is its fields one after the other. A string or list is its address and length.
    let [area, _version, _api, storage] = [0, 8, 16, 24].map(|offset| memory.slice(address as usize + offset));
    let storage = (0..storage.1).map(|number| {
        let record = storage.0 + number * 24;
        let (reads, count) = memory.slice(record + 8);
        Storage {
            prefix: memory.text(memory.slice(record)),
            reads: (0..count).map(|at| memory.word(reads + 4 * at)).collect(),
            writes: (memory.0[record + 16] == 1).then(|| memory.word(record + 20)),
        }
    });
    Description { area: memory.text(area), storage: storage.collect() }
}

/// The memory of an instance, as the canonical ABI uses it.
struct Memory(Vec<u8>);

impl Memory {
    fn of(instance: &Instance, store: &Store<()>) -> Self {
        Memory(instance.get_memory(store, "memory").expect("a memory").data(store).to_vec())
    }

    fn word(&self, address: usize) -> u32 {
        u32::from_le_bytes(self.0[address..address + 4].try_into().expect("four bytes"))
    }

    /// An address and a length.
    fn slice(&self, address: usize) -> (usize, usize) {
        (self.word(address) as usize, self.word(address + 4) as usize)
    }

    fn text(&self, (address, length): (usize, usize)) -> String {
        String::from_utf8(self.0[address..address + length].to_vec()).expect("UTF-8")
    }
}
