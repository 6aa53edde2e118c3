/* Counts, for each line of Python, how often it begins and how many bytes Python's allocators hand
   out until the next one begins. In C, because a trace function in Python takes longer than what it
   counts, and allocates itself. Loaded by work.py; always called with the GIL held. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Of CPython's stable interface, whose headers need not be installed. */
typedef struct {
    void *context;
    void *(*malloc)(void *, size_t);
    void *(*calloc)(void *, size_t, size_t);
    void *(*realloc)(void *, void *, size_t);
    void (*free)(void *, void *);
} Allocator;
typedef int (*Trace)(void *self, void *frame, int what, void *argument);
extern void PyMem_GetAllocator(int domain, Allocator *allocator);
extern void PyMem_SetAllocator(int domain, Allocator *allocator);
extern void PyEval_SetTrace(Trace trace, void *self);
extern void *PyFrame_GetCode(void *frame); /* a new reference */
extern int PyFrame_GetLineNumber(void *frame);
extern void Py_DecRef(void *object);

enum { FIRST = 1, LAST = 2 }; /* PYMEM_DOMAIN_MEM and PYMEM_DOMAIN_OBJ */
enum { LINE_EVENT = 2 };      /* PyTrace_LINE */
enum { SLOTS = 1 << 18 };

typedef struct {
    void *code; /* kept alive by a reference, so that no other one gets its address */
    int line;
    uint64_t runs, bytes;
} Line;

static Allocator before[LAST + 1];
static uint64_t total, total_at_last;
static Line *table, *last;

static void *count_malloc(void *context, size_t size) {
    Allocator *inner = context;
    total += size;
    return inner->malloc(inner->context, size);
}

static void *count_calloc(void *context, size_t number, size_t size) {
    Allocator *inner = context;
    total += number * size;
    return inner->calloc(inner->context, number, size);
}

static void *count_realloc(void *context, void *old, size_t size) {
    Allocator *inner = context;
    total += size;
    return inner->realloc(inner->context, old, size);
}

static void pass_free(void *context, void *old) {
    Allocator *inner = context;
    inner->free(inner->context, old);
}

static Line *find(void *code, int number) {
    size_t at = ((uintptr_t)code / 16 * 31 + (size_t)number * 2654435761u) % SLOTS;
    while (table[at].code != NULL && (table[at].code != code || table[at].line != number))
        at = (at + 1) % SLOTS;
    return &table[at];
}

static int trace(void *self, void *frame, int what, void *argument) {
    (void)self, (void)argument;
    if (table == NULL) /* a thread that outlives the counting */
        return 0;
    uint64_t now = total;
    if (last != NULL)
        last->bytes += now - total_at_last;
    void *code = PyFrame_GetCode(frame);
    Line *found = find(code, PyFrame_GetLineNumber(frame));
    if (found->code == NULL) {
        found->code = code;
        found->line = PyFrame_GetLineNumber(frame);
    } else {
        Py_DecRef(code);
    }
    found->runs += what == LINE_EVENT;
    last = found;
    total_at_last = total;
    return 0;
}

void trace_thread(void) { PyEval_SetTrace(trace, NULL); }

void start_counting(void) {
    table = calloc(SLOTS, sizeof(Line));
    last = NULL;
    for (int domain = FIRST; domain <= LAST; domain++) {
        PyMem_GetAllocator(domain, &before[domain]);
        Allocator counting = {&before[domain], count_malloc, count_calloc, count_realloc, pass_free};
        PyMem_SetAllocator(domain, &counting);
    }
    trace_thread();
}

void stop_counting(void) {
    PyEval_SetTrace(NULL, NULL);
    for (int domain = FIRST; domain <= LAST; domain++)
        PyMem_SetAllocator(domain, &before[domain]);
}

/* Copies the next line at or behind a slot; returns the slot behind it, or 0 after the last one. */
size_t next_line(size_t slot, Line *into) {
    while (slot < SLOTS && table[slot].code == NULL)
        slot++;
    if (slot >= SLOTS) {
        free(table);
        table = NULL;
        return 0;
    }
    *into = table[slot];
    return slot + 1;
}
