//! A simulated collector with its spool.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use record::{Format, Frame, FrameBuilder, Origin, Transport};

use super::Weakness;
use super::model::{Line, Model};
use super::producer::{Producer, ProducerSettings};
use super::world::{Count, World};
use crate::error::{Failure, LogError};

pub struct CollectorNode {
    producer: Producer,
}

impl CollectorNode {
    /// Starts on the site's disk: with its spool, or as a new node.
    pub fn start(world: &World, site: usize) -> CollectorNode {
        let mut settings = ProducerSettings::new(4096, 500);
        if world.weakness == Some(Weakness::NoWindow) {
            settings.window = u64::MAX;
        }
        let mut producer = Producer::new(world.partitions, settings);
        let mut disk = world.sites[site].disk.lock().unwrap();
        if disk.node == 0 {
            disk.node = world.new_node_id();
        }
        for (partition, frame, _) in &disk.spool {
            producer.push(*partition, frame.clone()).expect("the spool is within the limit");
        }
        CollectorNode { producer }
    }

    pub fn step(&mut self, world: &World, site: usize) {
        if !world.is_closing() && world.chance(400) {
            // Several at once, so that frames wait behind others.
            (0..1 + world.below(4)).for_each(|_| self.collect(world, site));
        }
        let waiting: Vec<u32> = self.producer.waiting().collect();
        let Some(&partition) = waiting.get(world.below(waiting.len())) else { return };
        // Several appends are under way: those behind one that fails may be in the log.
        let passed = if world.chance(300) { 1 + world.below(6) } else { 0 };
        let result = self.producer.step(&world.remote_log(site), partition, passed);
        if world.sites[site].has_crashed.load(Relaxed) {
            return;
        }
        match result {
            Ok(appended) => {
                let mut disk = world.sites[site].disk.lock().unwrap();
                let mut model = world.model.lock().unwrap();
                let oldest = disk.spool.iter().find(|(lane, ..)| *lane == partition);
                let oldest = oldest.map(|(_, frame, _)| frame.header().sequence);
                if oldest < appended.sequences.first().copied() {
                    world.count(Count::OutOfOrder, appended.sequences.len() as u64);
                }
                disk.spool.retain(|(_, frame, lines)| {
                    let is_in_log = appended.sequences.contains(&frame.header().sequence);
                    if is_in_log {
                        lines.iter().for_each(|&line| model.acknowledge(line));
                    }
                    !is_in_log
                });
                world.trace(|| format!("{site}: appended {:?} to {partition}", appended.sequences));
            }
            Err(error) => self.failed(world, site, partition, &error),
        }
    }

    fn failed(&mut self, world: &World, site: usize, partition: u32, error: &LogError) {
        if world.weakness == Some(Weakness::OtherPartition) && error.failure() == Failure::Unknown {
            let frame = {
                let mut disk = world.sites[site].disk.lock().unwrap();
                let first = disk.spool.iter_mut().find(|(lane, ..)| *lane == partition);
                let other = (partition + 1) % world.partitions;
                first.map(|(lane, frame, _)| {
                    *lane = other;
                    (other, frame.clone())
                })
            };
            if let Some((other, frame)) = frame {
                self.producer.give_up(partition);
                let _ = self.producer.push(other, frame);
            }
        }
    }

    /// Makes a frame of some lines, writes it to the spool, and pushes it.
    fn collect(&mut self, world: &World, site: usize) {
        if self.producer.waiting_bytes() > 2048 {
            return;
        }
        let partition = self.producer.choose();
        let mut model = world.model.lock().unwrap();
        if model.lines.len() >= world.lines_max {
            return;
        }
        let now_ns = world.now_ns();
        let received_ns = now_ns + world.sites[site].clock_wrong_ns.load(Relaxed);
        let mut builder = FrameBuilder::new();
        let origin = Origin::new(Transport::SyslogTcp, Format::Auto, None);
        let mut lines = Vec::new();
        for _ in 0..1 + world.below(3) {
            // Some lines are late.
            let late_ns =
                if world.chance(200) { world.below(20_000) as i64 * 1_000_000 } else { 0 };
            let time_ns = now_ns - late_ns;
            lines.push(model.lines.len());
            model.lines.push(Line { time_ns, received_ns, partition, acknowledged: None });
            let text = Model::text(&model, model.lines.len() - 1);
            builder.push_line(&origin, received_ns, text.as_bytes(), false);
        }
        drop(model);
        let mut disk = world.sites[site].disk.lock().unwrap();
        // Numbers have gaps, so that the window matters although there are few frames.
        disk.sequence += 1 + world.below(20) as u64;
        let frame = builder.finish(disk.node, disk.sequence).expect("it has lines");
        let frame = Arc::new(Frame::decode(frame.bytes().to_vec()).expect("it is a frame"));
        disk.spool.push((partition, frame.clone(), lines));
        self.producer.push(partition, frame).expect("it fits");
    }
}
