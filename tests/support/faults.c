/* Makes the N-th call of a kind fail, fall short, or be the last one: a library to be preloaded.
 *
 * Only calls on files below FAULTS_ROOT count, so a process can load and log what it likes.
 * Nothing happens until faults_arm is called, or FAULTS is set when the process starts.
 * After faults_record, all that those calls change is written down too, with the data, in the
 * order in which it was done (see tests/support/call_recorder.py for the form).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum action { NOTHING, FAIL, SHORT, KILL_BEFORE, KILL_AFTER, LIE };

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_MAX] = "";
static char wanted[32] = "";
static char only[256] = "";
static enum action action = NOTHING;
static int error_number = 0;
static long nth = 0;
static int onwards = 0;
static long seen = 0;
static long landed = 0;
static int log_descriptor = -1;

void faults_record(const char *path);

/* CALL:NTH:ACTION:ERRNO:ONWARDS:PART-OF-PATH, where CALL may be "any". */
void faults_arm(const char *text, const char *below, const char *log) {
    char call[32] = "", what[32] = "", part[256] = "";
    pthread_mutex_lock(&lock);
    seen = landed = 0;
    action = NOTHING;
    snprintf(root, sizeof root, "%s", below);
    if (text && *text) {
        sscanf(text, "%31[^:]:%ld:%31[^:]:%d:%d:%255[^\n]", call, &nth, what, &error_number,
               &onwards, part);
        snprintf(wanted, sizeof wanted, "%s", call);
        snprintf(only, sizeof only, "%s", part);
        if (!strcmp(what, "fail")) action = FAIL;
        else if (!strcmp(what, "short")) action = SHORT;
        else if (!strcmp(what, "kill-before")) action = KILL_BEFORE;
        else if (!strcmp(what, "kill-after")) action = KILL_AFTER;
        else if (!strcmp(what, "lie")) action = LIE;
    }
    if (log && *log)
        log_descriptor = (int)syscall(SYS_openat, AT_FDCWD, log,
                                      O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    pthread_mutex_unlock(&lock);
}

long faults_landed(void) { return landed; }

__attribute__((constructor)) static void from_environment(void) {
    const char *text = getenv("FAULTS"), *below = getenv("FAULTS_ROOT");
    const char *record = getenv("FAULTS_RECORD");
    if (below && *below) faults_arm(text ? text : "", below, getenv("FAULTS_LOG"));
    if (below && *below && record && *record) faults_record(record);
}

/* With FAULTS_CLOCK=SECONDS the wall clock jumps back and forth by that much, each second; with
   FAULTS_CLOCK_SET=SECONDS it is set forward by that much, or back where that is negative. */
int clock_gettime(clockid_t which, struct timespec *now) {
    static long jump = -1, set = 0;
    REAL(clock_gettime);
    int result = real(which, now);
    if (jump < 0) {
        const char *text = getenv("FAULTS_CLOCK"), *setting = getenv("FAULTS_CLOCK_SET");
        set = setting ? atol(setting) : 0;
        jump = text ? labs(atol(text)) : 0;
    }
    if (!result && which == CLOCK_REALTIME) now->tv_sec += set;
    if (!result && which == CLOCK_REALTIME && jump) now->tv_sec += now->tv_sec % 2 ? jump : -jump;
    return result;
}

static void resolve(int directory, const char *path, char *full, size_t size) {
    char link[64], base[PATH_MAX];
    ssize_t length;
    full[0] = 0;
    if (path && path[0] == '/') {
        snprintf(full, size, "%s", path);
        return;
    }
    if (directory == AT_FDCWD) snprintf(link, sizeof link, "/proc/self/cwd");
    else snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
    length = syscall(SYS_readlinkat, AT_FDCWD, link, base, sizeof base - 1);
    if (length < 0) return;
    base[length] = 0;
    if (path) snprintf(full, size, "%s/%s", base, path);
    else snprintf(full, size, "%s", base);
}

/* What to do with this call. The last thing before the call itself. */
static enum action meet(const char *call, int directory, const char *path) {
    char full[2 * PATH_MAX], line[2 * PATH_MAX + 64];
    enum action found = NOTHING;
    int kept = errno;
    if (!root[0]) return NOTHING;
    resolve(directory, path, full, sizeof full);
    errno = kept;
    if (strncmp(full, root, strlen(root))) return NOTHING;
    pthread_mutex_lock(&lock);
    if (log_descriptor >= 0) {
        int length = snprintf(line, sizeof line, "%s %s\n", call, full);
        syscall(SYS_write, log_descriptor, line, (size_t)length);
    }
    if (action != NOTHING && (!strcmp(wanted, "any") || !strcmp(wanted, call)) &&
        (!only[0] || strstr(full, only))) {
        seen++;
        if (seen == nth || (onwards && seen > nth)) {
            found = action;
            landed++;
        }
    }
    pthread_mutex_unlock(&lock);
    if (found == KILL_BEFORE) syscall(SYS_kill, getpid(), SIGKILL);
    errno = kept;
    return found;
}

static void done(enum action found) {
    if (found == KILL_AFTER) syscall(SYS_kill, getpid(), SIGKILL);
}

/* What a call has changed. Kinds that name an inode by its number alone have no path. */
enum kind { CREATED = 1, WRITTEN, CUT, SYNCED, RENAMED, MADE, REMOVED, LINKED };

struct record {
    uint32_t kind, path_bytes, other_bytes, unused;
    uint64_t inode, offset, data_bytes;
};

static pthread_mutex_t recording = PTHREAD_MUTEX_INITIALIZER;
static int record_descriptor = -1;

/* Append what is done from now on to a file; it is open to all processes that are forked. */
void faults_record(const char *path) {
    record_descriptor = (int)syscall(SYS_openat, AT_FDCWD, path,
                                     O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

/* A call and its record are one act, so that records stand in the order of what was done. */
static void begin_record(void) {
    if (record_descriptor >= 0) pthread_mutex_lock(&recording);
}

static void end_record(void) {
    if (record_descriptor >= 0) pthread_mutex_unlock(&recording);
}

static void put(enum kind kind, uint64_t inode, const char *path, const char *other,
                uint64_t offset, const struct iovec *pieces, int count, uint64_t size) {
    struct record record = {kind, (uint32_t)strlen(path), (uint32_t)strlen(other), 0,
                            inode, offset, size};
    struct iovec parts[64] = {{&record, sizeof record}, {(void *)path, record.path_bytes},
                              {(void *)other, record.other_bytes}};
    int used = 3;
    uint64_t left = size;
    for (int n = 0; n < count && used < 64 && left; n++) {
        parts[used] = pieces[n];
        if (parts[used].iov_len > left) parts[used].iov_len = left;
        left -= parts[used++].iov_len;
    }
    syscall(SYS_writev, record_descriptor, parts, used);
}

static int is_inside(const char *full) { return root[0] && !strncmp(full, root, strlen(root)); }

/* Of a name: its inode, 0 where there is none. Links are not followed. */
static uint64_t inode_of(const char *full) {
    struct stat facts;
    return syscall(SYS_newfstatat, AT_FDCWD, full, &facts, AT_SYMLINK_NOFOLLOW) ? 0
                                                                             : facts.st_ino;
}

static void record_name(enum kind kind, int directory, const char *path) {
    char full[2 * PATH_MAX];
    int kept = errno;
    if (record_descriptor < 0) return;
    resolve(directory, path, full, sizeof full);
    if (is_inside(full))
        put(kind, kind == REMOVED ? 0 : inode_of(full), full, "", 0, NULL, 0, 0);
    errno = kept;
}

/* A symbolic link, with what it leads to in place of another name. */
static void record_link(const char *target, int directory, const char *path) {
    char full[2 * PATH_MAX];
    int kept = errno;
    if (record_descriptor < 0) return;
    resolve(directory, path, full, sizeof full);
    if (is_inside(full)) put(CREATED, inode_of(full), full, target, 0, NULL, 0, 0);
    errno = kept;
}

static void record_names(enum kind kind, int from, const char *a, int to, const char *b) {
    char full[2 * PATH_MAX], other[2 * PATH_MAX];
    int kept = errno;
    if (record_descriptor < 0) return;
    resolve(from, a, full, sizeof full);
    resolve(to, b, other, sizeof other);
    if (is_inside(full) || is_inside(other)) put(kind, inode_of(other), full, other, 0, NULL, 0, 0);
    errno = kept;
}

/* Something about an open file or directory. */
static void record_file(enum kind kind, int fd, uint64_t offset) {
    char full[2 * PATH_MAX];
    struct stat facts;
    int kept = errno;
    if (record_descriptor < 0) return;
    resolve(fd, NULL, full, sizeof full);
    if (is_inside(full) && !fstat(fd, &facts))
        put(kind, facts.st_ino, kind == CREATED ? full : "", "", offset, NULL, 0, 0);
    errno = kept;
}

/* Data went into a file; where, if not at its offset, is -1. */
static void record_data(int fd, const struct iovec *pieces, int count, int64_t at, ssize_t size) {
    char full[2 * PATH_MAX];
    struct stat facts;
    int kept = errno;
    if (record_descriptor < 0 || size <= 0) return;
    resolve(fd, NULL, full, sizeof full);
    if (is_inside(full) && !fstat(fd, &facts) && S_ISREG(facts.st_mode)) {
        if (at < 0) at = lseek(fd, 0, SEEK_CUR) - size;
        put(WRITTEN, facts.st_ino, "", "", (uint64_t)at, pieces, count, (uint64_t)size);
    }
    errno = kept;
}

#define FAILING(found) \
    if (found == FAIL) { errno = error_number; return -1; } \
    if (found == LIE) return 0

#define SIMPLE(name, call, parameters, arguments, directory, path, note) \
    int name parameters { \
        REAL(name); \
        enum action found = meet(call, directory, path); \
        FAILING(found); \
        begin_record(); \
        int result = real arguments; \
        if (!result) note; \
        end_record(); \
        done(found); \
        return result; \
    }

SIMPLE(fsync, "fsync", (int fd), (fd), fd, NULL, record_file(SYNCED, fd, 0))
SIMPLE(fdatasync, "fsync", (int fd), (fd), fd, NULL, record_file(SYNCED, fd, 0))
SIMPLE(rename, "rename", (const char *a, const char *b), (a, b), AT_FDCWD, b,
       record_names(RENAMED, AT_FDCWD, a, AT_FDCWD, b))
SIMPLE(renameat, "rename", (int d, const char *a, int e, const char *b), (d, a, e, b), e, b,
       record_names(RENAMED, d, a, e, b))
SIMPLE(renameat2, "rename", (int d, const char *a, int e, const char *b, unsigned int f),
       (d, a, e, b, f), e, b, record_names(RENAMED, d, a, e, b))
SIMPLE(link, "link", (const char *a, const char *b), (a, b), AT_FDCWD, b,
       record_names(LINKED, AT_FDCWD, a, AT_FDCWD, b))
SIMPLE(linkat, "link", (int d, const char *a, int e, const char *b, int f), (d, a, e, b, f), e, b,
       record_names(LINKED, d, a, e, b))
SIMPLE(mkdir, "mkdir", (const char *a, mode_t m), (a, m), AT_FDCWD, a,
       record_name(MADE, AT_FDCWD, a))
SIMPLE(mkdirat, "mkdir", (int d, const char *a, mode_t m), (d, a, m), d, a,
       record_name(MADE, d, a))
SIMPLE(unlink, "unlink", (const char *a), (a), AT_FDCWD, a, record_name(REMOVED, AT_FDCWD, a))
SIMPLE(unlinkat, "unlink", (int d, const char *a, int f), (d, a, f), d, a,
       record_name(REMOVED, d, a))
SIMPLE(rmdir, "unlink", (const char *a), (a), AT_FDCWD, a, record_name(REMOVED, AT_FDCWD, a))
SIMPLE(ftruncate, "ftruncate", (int fd, off_t n), (fd, n), fd, NULL,
       record_file(CUT, fd, (uint64_t)n))
SIMPLE(ftruncate64, "ftruncate", (int fd, off64_t n), (fd, n), fd, NULL,
       record_file(CUT, fd, (uint64_t)n))
SIMPLE(symlink, "symlink", (const char *a, const char *b), (a, b), AT_FDCWD, b,
       record_link(a, AT_FDCWD, b))
SIMPLE(symlinkat, "symlink", (const char *a, int d, const char *b), (a, d, b), d, b,
       record_link(a, d, b))

/* A failed close still closes: the number must not be used again by mistake. */
int close(int fd) {
    REAL(close);
    enum action found = meet("close", fd, NULL);
    int result = real(fd);
    if (found == FAIL) { errno = error_number; return -1; }
    done(found);
    return result;
}

#define WRITING(name, call, parameters, full_arguments, short_arguments, note) \
    ssize_t name parameters { \
        REAL(name); \
        enum action found = meet(call, fd, NULL); \
        if (found == FAIL) { errno = error_number; return -1; } \
        if (found == LIE) return (ssize_t)count; \
        begin_record(); \
        ssize_t result = found == SHORT && count > 1 ? real short_arguments : real full_arguments; \
        note; \
        end_record(); \
        done(found); \
        return result; \
    }

#define NOTE_DATA(at) \
    record_data(fd, &(struct iovec){(void *)data, count}, 1, (int64_t)(at), result)

WRITING(write, "write", (int fd, const void *data, size_t count), (fd, data, count),
        (fd, data, count / 2), NOTE_DATA(-1))
WRITING(pwrite, "write", (int fd, const void *data, size_t count, off_t at),
        (fd, data, count, at), (fd, data, count / 2, at), NOTE_DATA(at))
WRITING(pwrite64, "write", (int fd, const void *data, size_t count, off64_t at),
        (fd, data, count, at), (fd, data, count / 2, at), NOTE_DATA(at))
WRITING(read, "read", (int fd, void *data, size_t count), (fd, data, count),
        (fd, data, count / 2), (void)0)
WRITING(pread, "read", (int fd, void *data, size_t count, off_t at), (fd, data, count, at),
        (fd, data, count / 2, at), (void)0)
WRITING(pread64, "read", (int fd, void *data, size_t count, off64_t at), (fd, data, count, at),
        (fd, data, count / 2, at), (void)0)

/* Python's os.writev and os.readv, with one piece at most where it falls short. */
#define VECTORED(name, call, note) \
    ssize_t name(int fd, const struct iovec *pieces, int count) { \
        REAL(name); \
        enum action found = meet(call, fd, NULL); \
        if (found == FAIL) { errno = error_number; return -1; } \
        begin_record(); \
        ssize_t result = real(fd, pieces, found == SHORT && count > 1 ? 1 : count); \
        note; \
        end_record(); \
        done(found); \
        return result; \
    }

VECTORED(writev, "write", record_data(fd, pieces, count, -1, result))
VECTORED(readv, "read", (void)0)

/* Python's os.preadv, under whichever name its C library has it. */
#define READING_AT(name, parameters, full_arguments, short_arguments) \
    ssize_t name parameters { \
        REAL(name); \
        enum action found = meet("read", fd, NULL); \
        if (found == FAIL) { errno = error_number; return -1; } \
        ssize_t result = found == SHORT && count > 1 ? real short_arguments : real full_arguments; \
        done(found); \
        return result; \
    }

READING_AT(preadv, (int fd, const struct iovec *pieces, int count, off_t at),
           (fd, pieces, count, at), (fd, pieces, 1, at))
READING_AT(preadv64, (int fd, const struct iovec *pieces, int count, off64_t at),
           (fd, pieces, count, at), (fd, pieces, 1, at))
READING_AT(preadv2, (int fd, const struct iovec *pieces, int count, off_t at, int flags),
           (fd, pieces, count, at, flags), (fd, pieces, 1, at, flags))
READING_AT(preadv64v2, (int fd, const struct iovec *pieces, int count, off64_t at, int flags),
           (fd, pieces, count, at, flags), (fd, pieces, 1, at, flags))

/* Only told while recording. */
static int is_absent(int directory, const char *path) {
    char full[2 * PATH_MAX];
    int kept = errno, absent = 0;
    if (record_descriptor >= 0) {
        resolve(directory, path, full, sizeof full);
        absent = !inode_of(full);
    }
    errno = kept;
    return absent;
}

#define OPENING(name, parameters, directory, full_arguments) \
    int name parameters { \
        REAL(name); \
        mode_t mode = 0; \
        if (flags & (O_CREAT | __O_TMPFILE)) { \
            va_list rest; \
            va_start(rest, flags); \
            mode = va_arg(rest, mode_t); \
            va_end(rest); \
        } \
        enum action found = meet("open", directory, path); \
        if (found == FAIL) { errno = error_number; return -1; } \
        begin_record(); \
        int is_new = (flags & O_CREAT) && is_absent(directory, path); \
        int result = real full_arguments; \
        if (result >= 0 && is_new) record_file(CREATED, result, 0); \
        else if (result >= 0 && (flags & O_TRUNC)) record_file(CUT, result, 0); \
        end_record(); \
        done(found); \
        return result; \
    }

OPENING(open, (const char *path, int flags, ...), AT_FDCWD, (path, flags, mode))
OPENING(open64, (const char *path, int flags, ...), AT_FDCWD, (path, flags, mode))
OPENING(openat, (int fd, const char *path, int flags, ...), fd, (fd, path, flags, mode))
OPENING(openat64, (int fd, const char *path, int flags, ...), fd, (fd, path, flags, mode))
