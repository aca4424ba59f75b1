//! A cache of derived values across the requests of one instance, with at most one value of each type. A value carries
//! the revision that it was derived from. Its user compares the revision before use.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::rc::Rc;

/// A cache with one value per type. An area has about ten types, so a linear search is faster than a hash.
#[derive(Default)]
pub struct InstanceCache(RefCell<Vec<(TypeId, Rc<dyn Any>)>>);

impl InstanceCache {
    /// The cached value of this type.
    pub fn get<T: 'static>(&self) -> Option<Rc<T>> {
        let values = self.0.borrow();
        let (_, value) = values.iter().find(|(kind, _)| *kind == TypeId::of::<T>())?;
        value.clone().downcast().ok()
    }

    /// The cached value of this type. Without one, caches the value of `make` and returns it.
    pub fn get_or_insert_with<T: 'static>(&self, make: impl FnOnce() -> T) -> Rc<T> {
        self.get_current_or_insert_with(|_| true, make)
    }

    /// The cached value of this type if it `is_current`. Otherwise, caches the value of `make` and returns it.
    pub fn get_current_or_insert_with<T: 'static>(
        &self,
        is_current: impl FnOnce(&T) -> bool,
        make: impl FnOnce() -> T,
    ) -> Rc<T> {
        self.get().filter(|value| is_current(value)).unwrap_or_else(|| {
            let value = Rc::new(make());
            self.put(value.clone());
            value
        })
    }

    /// Caches a value and replaces the previous one of its type.
    pub fn put<T: 'static>(&self, value: Rc<T>) {
        let (kind, mut values) = (TypeId::of::<T>(), self.0.borrow_mut());
        match values.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, known)) => *known = value,
            None => values.push((kind, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_of_each_type() {
        let cache = InstanceCache::default();
        assert_eq!(cache.get::<u32>(), None);
        cache.put(Rc::new(1_u32));
        cache.put(Rc::new(2_u32));
        cache.put(Rc::new("x"));
        assert_eq!((cache.get::<u32>().as_deref(), cache.get::<&str>().as_deref()), (Some(&2), Some(&"x")));
    }
}
