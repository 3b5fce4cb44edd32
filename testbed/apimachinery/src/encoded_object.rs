//! An object as watches show it, together with the bytes it was written as: watchers that see the
//! same share both, so that a thousand of them cost one conversion and one encoding.
//!
//! Nothing here knows what the bytes are.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde_json::Value;

use crate::resource::Resource;

/// What the bytes are of: the type of the event and the form it is written in.
pub type Wire = (&'static str, &'static str);

/// An object on its way to watchers.
#[derive(Default)]
pub struct EncodedObject {
    object: Arc<Value>,
    written: Mutex<Vec<(Wire, Bytes)>>,
}

impl EncodedObject {
    /// An object nobody has written yet.
    #[must_use]
    pub fn new(object: impl Into<Arc<Value>>) -> Arc<Self> {
        Arc::new(Self {
            object: object.into(),
            written: Mutex::default(),
        })
    }

    /// Its bytes in one form, written by whoever asks first.
    pub fn written(&self, wire: Wire, write: impl FnOnce() -> Option<Bytes>) -> Option<Bytes> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, bytes)) = written.iter().find(|(of, _)| *of == wire) {
            return Some(bytes.clone());
        }
        let bytes = write()?;
        written.push((wire, bytes.clone()));
        Some(bytes)
    }
}

impl Deref for EncodedObject {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.object
    }
}

impl fmt::Debug for EncodedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.object.fmt(f)
    }
}

/// Which object of a write is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// What was there before.
    Before,
    /// What is there after it.
    After,
    /// What was there before, at the version at which it went.
    Gone,
}

/// What the watches of each version of a resource show of one write. A copy starts empty.
#[derive(Default)]
pub struct EncodedViews(Mutex<Vec<View>>);

struct View {
    of: Arc<Resource>,
    side: Side,
    object: Arc<EncodedObject>,
}

impl EncodedViews {
    /// The view of a resource, made by whoever asks first.
    pub fn get_or_make(&self, of: &Arc<Resource>, side: Side, make: impl FnOnce() -> Arc<Value>) -> Arc<EncodedObject> {
        let mut views = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = views.iter().find(|view| view.side == side && Arc::ptr_eq(&view.of, of));
        if let Some(view) = known {
            return view.object.clone();
        }
        let object = EncodedObject::new(make());
        views.push(View {
            of: of.clone(),
            side,
            object: object.clone(),
        });
        object
    }

    /// Gives the memory back; who still needs a view makes it anew.
    pub fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Vec::new();
    }
}

impl Clone for EncodedViews {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl fmt::Debug for EncodedViews {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncodedViews").finish_non_exhaustive()
    }
}
