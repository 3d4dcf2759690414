"""A disk that forgets what was not synced: python3 disk.py LIVE DURABLE MOUNT.

Files are those of LIVE. What a file had when it was last synced is in DURABLE, which takes the place
of LIVE after a loss of power. Names are durable at once, in their order; contents and lengths are
durable once fsync, fdatasync or msync was called, or with each write to a file that was opened with
O_SYNC or O_DSYNC, for which the kernel calls fsync. This is more than POSIX promises for names, and
nothing more for contents.
"""

import errno
import os
import sys
import threading

import fusepy as fuse


class Disk(fuse.Operations):
    def __init__(self, live, durable):
        self.live, self.durable = live, durable
        self.mutex = threading.RLock()
        # Ranges written since the last sync, by inode: start -> end, apart from each other.
        self.dirty = {}
        self.handles = {}

    def of(self, path):
        return self.live + path, self.durable + path

    def both(self, change, path, *rest):
        """Changes names in both places; what the durable one lacks is no error."""
        with self.mutex:
            live, durable = self.of(path)
            change(live, *rest)
            try:
                change(durable, *rest)
            except FileNotFoundError:
                pass

    # Names and attributes.

    def access(self, path, mode):
        if not os.access(self.live + path, mode):
            raise fuse.FuseOSError(errno.EACCES)

    def getattr(self, path, fh=None):
        stat = os.lstat(self.live + path)
        names = ("atime", "ctime", "gid", "mode", "mtime", "nlink", "size", "uid", "blocks")
        return {"st_" + name: getattr(stat, "st_" + name) for name in names}

    def readdir(self, path, fh):
        return [".", ".."] + os.listdir(self.live + path)

    def readlink(self, path):
        return os.readlink(self.live + path)

    def statfs(self, path):
        stat = os.statvfs(self.live + path)
        names = ("bavail", "bfree", "blocks", "bsize", "favail", "ffree", "files", "flag", "frsize", "namemax")
        return {"f_" + name: getattr(stat, "f_" + name) for name in names}

    def chmod(self, path, mode):
        self.both(os.chmod, path, mode)

    def chown(self, path, uid, gid):
        self.both(lambda at: os.chown(at, uid, gid, follow_symlinks=False), path)

    def utimens(self, path, times=None):
        os.utime(self.live + path, times)

    def mkdir(self, path, mode):
        self.both(os.mkdir, path, mode)

    def rmdir(self, path):
        self.both(os.rmdir, path)

    def unlink(self, path):
        with self.mutex:
            stat = os.lstat(self.live + path)
            self.both(os.unlink, path)
            # Another file may get its number.
            if stat.st_nlink == 1 and all(inode != stat.st_ino for _, inode in self.handles.values()):
                self.dirty.pop(stat.st_ino, None)

    def symlink(self, path, target):
        self.both(lambda at: os.symlink(target, at), path)

    def mknod(self, path, mode, device):
        self.both(os.mknod, path, mode, device)

    def rename(self, old, new):
        with self.mutex:
            os.rename(self.live + old, self.live + new)
            os.rename(self.durable + old, self.durable + new)

    def link(self, path, target):
        with self.mutex:
            os.link(self.live + target, self.live + path)
            os.link(self.durable + target, self.durable + path)

    # Contents.

    def opened(self, path, flags, mode=0o600):
        fd = os.open(self.live + path, flags & ~os.O_APPEND, mode)
        try:
            twin = os.open(self.durable + path, os.O_RDWR | os.O_CREAT, mode)
        except OSError:
            os.close(fd)
            raise
        with self.mutex:
            self.handles[fd] = (twin, os.fstat(fd).st_ino)
        return fd

    def open(self, path, flags):
        return self.opened(path, flags & ~os.O_TRUNC)

    def create(self, path, mode, fi=None):
        return self.opened(path, os.O_RDWR | os.O_CREAT, mode)

    def read(self, path, size, offset, fh):
        return os.pread(fh, size, offset)

    def write(self, path, data, offset, fh):
        with self.mutex:
            written = os.pwrite(fh, data, offset)
            self.note(self.handles[fh][1], offset, offset + written)
        return written

    def note(self, inode, start, end):
        """Remembers that a range was written, as one with those that it touches."""
        ranges = self.dirty.setdefault(inode, {})
        for other in [s for s, e in ranges.items() if s <= end and e >= start]:
            start, end = min(start, other), max(end, ranges.pop(other))
        ranges[start] = end

    def truncate(self, path, length, fh=None):
        # The length is durable with the next sync.
        with self.mutex:
            os.truncate(self.live + path, length)

    def fsync(self, path, datasync, fh):
        with self.mutex:
            self.sync(fh)
        return 0

    def fsyncdir(self, path, datasync, fh):
        return 0

    def sync(self, fh):
        twin, inode = self.handles[fh]
        size = os.fstat(fh).st_size
        if os.fstat(twin).st_size > size:
            os.ftruncate(twin, size)
        for start, end in sorted(self.dirty.pop(inode, {}).items()):
            while start < end:
                part = os.pread(fh, min(end - start, 1 << 20), start)
                if not part:
                    break
                os.pwrite(twin, part, start)
                start += len(part)
        os.ftruncate(twin, size)

    def flush(self, path, fh):
        return 0

    def release(self, path, fh):
        with self.mutex:
            os.close(self.handles.pop(fh)[0])
            os.close(fh)
        return 0


if __name__ == "__main__":
    live, durable, mount = sys.argv[1:]
    fuse.FUSE(Disk(live, durable), mount, foreground=True, allow_other=True, default_permissions=True,
              use_ino=True, fsname="forgetful")
