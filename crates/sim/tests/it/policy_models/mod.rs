//! The policies whose order is promised, in the plainest way there is: a queue that is searched.

mod scan_resistant;

use std::collections::VecDeque;

use crate::loads::with;
use ioassay_sim::policy::{BlockBy, Settings};
use scan_resistant::{Arc, S3Fifo, Sieve};

/// A write buffer that returns the pages that leave, one by one.
pub trait Model {
    fn write(&mut self, page: u32) -> Vec<u32>;
    fn discard(&mut self, page: u32);
    /// The first victim all of whose pages are `ready`.
    fn destage(&mut self, ready: &dyn Fn(u32) -> bool) -> Vec<u32>;
    /// Everything, in the order in which victims leave.
    fn drain(&mut self) -> Vec<u32> {
        let mut left = Vec::new();
        loop {
            let victim = self.destage(&|_| true);
            if victim.is_empty() {
                return left;
            }
            left.extend(victim);
        }
    }
}

/// The model of a policy; `None` where no order is promised.
pub fn model(name: &str, settings: &Settings) -> Option<Box<dyn Model>> {
    let capacity = settings.capacity_pages;
    let queue = |moves, marks| Queue { pages: VecDeque::new(), capacity, moves, marks };
    let turns = |all| Turns { lists: vec![VecDeque::new(); settings.layout.elements as usize], turn: 0, capacity, all };
    let blocks = |fullest| Blocks { order: VecDeque::new(), settings: *settings, fullest };
    Some(match name {
        "fifo" => Box::new(queue(false, false)) as Box<dyn Model>,
        "lru" => Box::new(queue(true, false)),
        "clock" => Box::new(queue(false, true)),
        "sieve" => Box::new(with(Sieve::default(), |model| model.capacity = capacity)),
        "s3-fifo" => Box::new(with(S3Fifo::default(), |model| model.capacity = capacity)),
        "arc" => Box::new(with(Arc::default(), |model| model.c = capacity)),
        "epo" => Box::new(turns(false)),
        "epo-all" => Box::new(turns(true)),
        "bplru" => Box::new(blocks(false)),
        "fab" => Box::new(blocks(true)),
        _ => return None,
    })
}

/// FIFO, LRU (hits move) and CLOCK (hits mark); the oldest stands in front.
struct Queue {
    pages: VecDeque<(u32, bool)>,
    capacity: usize,
    moves: bool,
    marks: bool,
}

impl Model for Queue {
    fn write(&mut self, page: u32) -> Vec<u32> {
        if let Some(at) = self.pages.iter().position(|held| held.0 == page) {
            self.pages[at].1 = self.marks;
            if self.moves {
                let held = self.pages.remove(at).unwrap();
                self.pages.push_back(held);
            }
            return Vec::new();
        }
        let mut left = Vec::new();
        while self.pages.len() == self.capacity {
            match self.pages.pop_front().unwrap() {
                (page, true) => self.pages.push_back((page, false)),
                (page, false) => left.push(page),
            }
        }
        self.pages.push_back((page, false));
        left
    }

    fn discard(&mut self, page: u32) {
        self.pages.retain(|held| held.0 != page);
    }

    fn destage(&mut self, ready: &dyn Fn(u32) -> bool) -> Vec<u32> {
        while let Some(at) = self.pages.iter().position(|held| ready(held.0)) {
            match self.pages.remove(at).unwrap() {
                (page, true) => self.pages.push_back((page, false)),
                (page, false) => return vec![page],
            }
        }
        Vec::new()
    }

    fn drain(&mut self) -> Vec<u32> {
        self.pages.drain(..).map(|held| held.0).collect()
    }
}

/// EPO: an LRU queue for each element, and whose turn it is.
struct Turns {
    lists: Vec<VecDeque<u32>>,
    turn: usize,
    capacity: usize,
    all: bool,
}

impl Turns {
    fn len(&self) -> usize {
        self.lists.iter().map(VecDeque::len).sum()
    }
}

impl Model for Turns {
    fn write(&mut self, page: u32) -> Vec<u32> {
        let element = page as usize % self.lists.len();
        let held = self.lists[element].contains(&page);
        let full = self.len() == self.capacity;
        let mut left = Vec::new();
        if full && !held {
            left = self.destage(&|_| true);
        }
        self.discard(page);
        self.lists[element].push_back(page);
        left
    }

    fn discard(&mut self, page: u32) {
        for list in &mut self.lists {
            list.retain(|&held| held != page);
        }
    }

    fn destage(&mut self, ready: &dyn Fn(u32) -> bool) -> Vec<u32> {
        let elements = self.lists.len();
        let mut order = (0..elements).map(|step| (self.turn + step) % elements);
        if self.all {
            let able = (0..elements).filter(|&element| ready(element as u32));
            return able.filter_map(|element| self.lists[element].pop_front()).collect();
        }
        let able = |&element: &usize| ready(element as u32) && !self.lists[element].is_empty();
        let Some(element) = order.find(able) else {
            return Vec::new();
        };
        self.turn = (element + 1) % elements;
        self.lists[element].pop_front().into_iter().collect()
    }
}

struct Block {
    number: u32,
    /// Places in it that are filled.
    places: Vec<u32>,
    /// Places written since its last write to place 0, that one included.
    run: Vec<u32>,
}

/// BPLRU, and FAB where the fullest block leaves; the block written longest ago stands in front.
struct Blocks {
    order: VecDeque<Block>,
    settings: Settings,
    fullest: bool,
}

impl Blocks {
    fn locate(&self, page: u32) -> (u32, u32) {
        let layout = &self.settings.layout;
        let (elements, length) = (layout.elements, layout.pages_per_block);
        match self.settings.block_by {
            BlockBy::Lba => (page / length, page % length),
            BlockBy::Element => {
                let local = page / elements;
                (local / length * elements + page % elements, local % length)
            }
        }
    }

    /// Pages of a block, by asking every page of the drive.
    fn pages(&self, block: u32) -> Vec<u32> {
        let pages = 0..self.settings.layout.pages;
        pages.filter(|&page| self.locate(page).0 == block).collect()
    }

    /// The pages that a block writes when it leaves.
    fn written(&self, block: &Block, padding: bool) -> Vec<u32> {
        let mut pages = self.pages(block.number);
        pages.retain(|&page| padding || block.places.contains(&self.locate(page).1));
        pages
    }

    fn len(&self) -> usize {
        self.order.iter().map(|block| block.places.len()).sum()
    }

    fn take(&mut self, number: u32) -> Block {
        let at = self.order.iter().position(|block| block.number == number);
        let fresh = Block { number, places: Vec::new(), run: Vec::new() };
        at.and_then(|at| self.order.remove(at)).unwrap_or(fresh)
    }
}

impl Model for Blocks {
    fn write(&mut self, page: u32) -> Vec<u32> {
        let (number, place) = self.locate(page);
        let holds = |block: &Block| block.number == number && block.places.contains(&place);
        let held = self.order.iter().any(holds);
        let full = self.len() == self.settings.capacity_pages;
        let mut left = Vec::new();
        if full && !held && self.fullest {
            left = self.destage(&|_| true);
        }
        // BPLRU looks for a victim when the written block is the newest already.
        let mut block = self.take(number);
        if full && !held && !self.fullest {
            left = self.destage(&|_| true);
        }
        if !held {
            block.places.push(place);
        }
        if place == 0 {
            block.run.clear();
        }
        block.run.push(place);
        let whole: Vec<u32> = (0..self.pages(number).len() as u32).collect();
        if self.settings.compensation && block.run == whole {
            self.order.push_front(block);
        } else {
            self.order.push_back(block);
        }
        left
    }

    fn discard(&mut self, page: u32) {
        let (number, place) = self.locate(page);
        let fullest = self.fullest;
        let holds = |block: &Block| block.number == number && block.places.contains(&place);
        let Some(at) = self.order.iter().position(holds) else {
            return;
        };
        self.order[at].places.retain(|&other| other != place);
        // Out of order from here on, until place 0 is written.
        self.order[at].run = vec![u32::MAX];
        if self.order[at].places.is_empty() {
            self.order.remove(at);
        } else if fullest {
            let block = self.order.remove(at).unwrap();
            self.order.push_back(block);
        }
    }

    fn destage(&mut self, ready: &dyn Fn(u32) -> bool) -> Vec<u32> {
        let padding = self.settings.padding;
        let is_able = |block: &&Block| self.written(block, padding).into_iter().all(ready);
        let able = self.order.iter().filter(is_able);
        let size = |block: &Block| if self.fullest { block.places.len() } else { 0 };
        let Some(most) = able.clone().map(size).max() else {
            return Vec::new();
        };
        let mut first = able.filter(|block| size(block) == most);
        let number = first.next().unwrap().number;
        let block = self.take(number);
        self.written(&block, false)
    }
}
