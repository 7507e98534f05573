//! Writes GGUF files and checks nothing, so that wrong ones can be made.

/// Alignment of tensor data.
const ALIGNMENT: usize = 32;

/// A metadata value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `u8`, type 0.
    U8(u8),
    /// `u32`, type 4.
    U32(u32),
    /// `i32`, type 5.
    I32(i32),
    /// `f32`, type 6.
    F32(f32),
    /// `bool`, type 7.
    Bool(bool),
    /// `string`, type 8.
    Text(String),
    /// Array of `string`.
    Texts(Vec<String>),
    /// Array of `i32`.
    I32s(Vec<i32>),
    /// Array of `f32`.
    F32s(Vec<f32>),
    /// `u64`, type 10.
    U64(u64),
    /// Any type number, any bytes.
    Raw(u32, Vec<u8>),
}

impl Value {
    fn encode(&self) -> (u32, Vec<u8>) {
        match self {
            Self::U8(n) => (0, vec![*n]),
            Self::U32(n) => (4, n.to_le_bytes().into()),
            Self::I32(n) => (5, n.to_le_bytes().into()),
            Self::F32(x) => (6, x.to_le_bytes().into()),
            Self::Bool(b) => (7, vec![u8::from(*b)]),
            Self::Text(s) => (8, text(s)),
            Self::Texts(v) => (9, array(8, v.iter().map(|s| text(s)))),
            Self::I32s(v) => (9, array(5, v.iter().map(|n| n.to_le_bytes()))),
            Self::F32s(v) => (9, array(6, v.iter().map(|x| x.to_le_bytes()))),
            Self::U64(n) => (10, n.to_le_bytes().into()),
            Self::Raw(kind, bytes) => (*kind, bytes.clone()),
        }
    }
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

fn array<B: AsRef<[u8]>>(kind: u32, items: impl ExactSizeIterator<Item = B>) -> Vec<u8> {
    let mut out = [kind.to_le_bytes().as_slice(), &(items.len() as u64).to_le_bytes()].concat();
    items.for_each(|item| out.extend_from_slice(item.as_ref()));
    out
}

/// A tensor as a file describes it, right or wrong.
#[derive(Debug, Clone, PartialEq)]
pub struct Described {
    /// Its name.
    pub name: String,
    /// Dimensions, the fastest first.
    pub dims: Vec<u64>,
    /// Type number.
    pub kind: u32,
    /// Offset from the start of the data.
    pub offset: u64,
}

/// Writes any GGUF file, wrong ones too.
#[derive(Debug, Clone)]
pub struct Writer {
    /// First four bytes.
    pub magic: [u8; 4],
    /// Version.
    pub version: u32,
    /// Count of tensors to claim; `None`: as many as there are.
    pub tensor_count: Option<u64>,
    /// Count of metadata entries to claim; `None`: as many as there are.
    pub entry_count: Option<u64>,
    /// Metadata, in order.
    pub metadata: Vec<(String, Value)>,
    /// Tensors, in order.
    pub tensors: Vec<Described>,
    /// Tensor data.
    pub data: Vec<u8>,
}

impl Default for Writer {
    fn default() -> Self {
        let (metadata, tensors, data) = (Vec::new(), Vec::new(), Vec::new());
        Self { magic: *b"GGUF", version: 3, tensor_count: None, entry_count: None, metadata, tensors, data }
    }
}

impl Writer {
    /// Adds a metadata entry.
    pub fn put(&mut self, key: &str, value: Value) {
        self.metadata.push((key.to_owned(), value));
    }

    /// Replaces a metadata entry, or adds it.
    pub fn set(&mut self, key: &str, value: Value) {
        self.remove(key);
        self.put(key, value);
    }

    /// Removes a metadata entry.
    pub fn remove(&mut self, key: &str) {
        self.metadata.retain(|(k, _)| k != key);
    }

    /// Adds a tensor and its bytes, aligned.
    pub fn tensor(&mut self, name: &str, dims: &[usize], kind: u32, bytes: &[u8]) {
        self.data.resize(self.data.len().next_multiple_of(ALIGNMENT), 0);
        let dims = dims.iter().map(|&dim| dim as u64).collect();
        self.tensors.push(Described { name: name.to_owned(), dims, kind, offset: self.data.len() as u64 });
        self.data.extend_from_slice(bytes);
    }

    /// The tensor called `name`, to spoil it.
    ///
    /// # Panics
    /// When there is none.
    pub fn tensor_mut(&mut self, name: &str) -> &mut Described {
        let found = self.tensors.iter_mut().find(|tensor| tensor.name == name);
        found.unwrap_or_else(|| panic!("no tensor {name}"))
    }

    /// The file.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = self.magic.to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend(self.tensor_count.unwrap_or(self.tensors.len() as u64).to_le_bytes());
        out.extend(self.entry_count.unwrap_or(self.metadata.len() as u64).to_le_bytes());
        for (key, value) in &self.metadata {
            let (kind, bytes) = value.encode();
            out.extend(text(key));
            out.extend(kind.to_le_bytes());
            out.extend(bytes);
        }
        for Described { name, dims, kind, offset } in &self.tensors {
            out.extend(text(name));
            out.extend((dims.len() as u32).to_le_bytes());
            dims.iter().for_each(|dim| out.extend(dim.to_le_bytes()));
            out.extend(kind.to_le_bytes());
            out.extend(offset.to_le_bytes());
        }
        out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
        out.extend_from_slice(&self.data);
        out
    }
}
