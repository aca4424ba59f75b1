//! `spin:variables@3.0.0`: the component's variables, which do not change after the component is loaded.

use std::collections::BTreeMap;
use std::sync::Arc;

use wasmtime::Result;
use wasmtime::component::{Accessor, HasData, Linker};

use self::spin::variables::variables::{self, Error};

wasmtime::component::bindgen!({
    inline: "package hexad:host; world imports { import spin:variables/variables@3.0.0; }",
    path: "../../wit/deps/spin-variables@3.0.0",
    imports: { default: trappable },
});

/// The variables of one component, by name. They may be secrets.
pub type Variables = BTreeMap<String, String>;

/// The variables of an instance's component.
pub struct VariablesView<'a>(pub &'a Arc<Variables>);

struct HasVariables;

impl HasData for HasVariables {
    type Data<'a> = VariablesView<'a>;
}

/// Adds the interface.
pub fn add_to_linker<T: Send + 'static>(linker: &mut Linker<T>, view: fn(&mut T) -> VariablesView<'_>) -> Result<()> {
    variables::add_to_linker::<_, HasVariables>(linker, view)
}

impl<T: Send> variables::HostWithStore<T> for HasVariables {
    async fn get(accessor: &Accessor<T, Self>, name: String) -> Result<Result<String, Error>> {
        let value = accessor.with(|mut access| access.get().0.get(&name).cloned());
        Ok(value.ok_or_else(|| Error::Undefined(format!("the component has no variable `{name}`"))))
    }
}

impl variables::Host for VariablesView<'_> {}
