//! The guest's descriptors.

use crate::dir::OpenDir;
use crate::errno::Errno;
use crate::file::OpenFile;
use crate::stdio::Stream;
use crate::types::Rights;

/// What a descriptor stands for.
pub(crate) enum Object {
    Input,
    Output(Stream),
    File(OpenFile),
    Dir(OpenDir),
}

/// An open descriptor: an object and what the guest may do with it.
pub(crate) struct Descriptor {
    pub object: Object,
    pub rights: Rights,
    /// What may be had of things opened through it.
    pub inheriting: Rights,
}

impl Descriptor {
    /// Fails with [`Errno::Notcapable`] unless all of `rights` are there.
    pub fn require(&self, rights: Rights) -> Result<(), Errno> {
        if self.rights.contains(rights) { Ok(()) } else { Err(Errno::Notcapable) }
    }
}

/// All open descriptors by number; a new one takes the lowest free number.
pub(crate) struct FdTable {
    slots: Vec<Option<Descriptor>>,
    /// At most so many: each may be an open file of the host's.
    most: u32,
}

impl FdTable {
    /// An empty one, with room for so many.
    pub fn new(most: u32) -> FdTable {
        FdTable { slots: Vec::new(), most }
    }

    /// The number that a new one would take; fails with [`Errno::Mfile`] where there is none.
    pub fn free(&self) -> Result<u32, Errno> {
        let free = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        u32::try_from(free).ok().filter(|&fd| fd < self.most).ok_or(Errno::Mfile)
    }

    pub fn insert(&mut self, descriptor: Descriptor) -> Result<u32, Errno> {
        let fd = self.free()?;
        if fd as usize == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[fd as usize] = Some(descriptor);
        Ok(fd)
    }

    /// All that is open.
    pub fn descriptors(&self) -> impl Iterator<Item = &Descriptor> {
        self.slots.iter().flatten()
    }

    pub fn get(&self, fd: u32) -> Result<&Descriptor, Errno> {
        self.slots.get(fd as usize).and_then(Option::as_ref).ok_or(Errno::Badf)
    }

    pub fn get_mut(&mut self, fd: u32) -> Result<&mut Descriptor, Errno> {
        self.slots.get_mut(fd as usize).and_then(Option::as_mut).ok_or(Errno::Badf)
    }

    pub fn remove(&mut self, fd: u32) -> Result<Descriptor, Errno> {
        self.slots.get_mut(fd as usize).and_then(Option::take).ok_or(Errno::Badf)
    }

    /// Moves `from` to the number `to`, closing what was there; both must be open.
    pub fn renumber(&mut self, from: u32, to: u32) -> Result<(), Errno> {
        self.get(from)?;
        self.get(to)?;
        if from != to {
            self.slots[to as usize] = self.slots[from as usize].take();
        }
        Ok(())
    }

    /// The open file `fd`, if it has `rights`.
    pub fn file(&self, fd: u32, rights: Rights) -> Result<&OpenFile, Errno> {
        let descriptor = self.get(fd)?;
        match &descriptor.object {
            Object::File(file) => descriptor.require(rights).map(|()| file),
            Object::Dir(_) => Err(Errno::Isdir),
            Object::Input | Object::Output(_) => Err(Errno::Spipe),
        }
    }

    /// The open directory `fd`, if it has `rights`.
    pub fn dir(&self, fd: u32, rights: Rights) -> Result<&OpenDir, Errno> {
        let descriptor = self.get(fd)?;
        match &descriptor.object {
            Object::Dir(dir) => descriptor.require(rights).map(|()| dir),
            _ => Err(Errno::Notdir),
        }
    }

    /// The same, to change its state.
    pub fn dir_mut(&mut self, fd: u32, rights: Rights) -> Result<&mut OpenDir, Errno> {
        let descriptor = self.get_mut(fd)?;
        let allowed = descriptor.require(rights);
        match &mut descriptor.object {
            Object::Dir(dir) => allowed.map(|()| dir),
            _ => Err(Errno::Notdir),
        }
    }
}
