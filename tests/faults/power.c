#include "tests/faults/power.h"

#include "base/buffer.h"
#include "base/macros.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SECTOR = 512, ROOT = 0, NONE = -1 };

/* A file or a folder, whatever its name is. */
typedef struct Node {
    bool folder;
    char *data; /* [n] before all */
    size_t n;
} Node;

typedef struct Name {
    int folder, node; /* nodes */
    char text[100];
} Name;

typedef struct Names {
    Name all[256];
    int n;
} Names;

typedef struct Op {
    Record record;
    const char *path, *data;
    int node;
    Name from, to; /* of names: where it was, where it is */
    int synced;    /* the op that made it last; INT_MAX: none */
} Op;

typedef enum Variant {
    VARIANT_NONE,
    VARIANT_ALL,
    VARIANT_FIRST,
    VARIANT_CUT,
    VARIANT_ZEROS,
    VARIANT_LAST,
    VARIANTS
} Variant;
static const char *const variant_names[] = {"none", "all", "the first", "cut", "zeros", "the last"};

/* After `moment` ops; what is not synced has happened as the choice says: a bit for each op about names, in their
 * order, and a Variant for each file, in that of the nodes. */
typedef struct State {
    int moment;
    uint64_t choice;
} State;

struct Power {
    char *text; /* the record */
    Op *ops;
    int n_ops, n_nodes, n_states;
    Node nodes[256];
    Names before;
    State *states;
};

/* ---- names ---- */

static int find(const Names *names, int folder, const char *text) {
    for (int i = 0; i < names->n; i++)
        if (names->all[i].folder == folder && !strcmp(names->all[i].text, text)) return i;
    return NONE;
}

static void set(Names *names, const Name *name, int node) {
    int i = find(names, name->folder, name->text);
    if (i == NONE) i = names->n++;
    BUG_ON(i >= (int)COUNTOF(names->all));
    names->all[i] = *name;
    names->all[i].node = node;
}

static void drop(Names *names, const Name *name) {
    int i = find(names, name->folder, name->text);
    if (i != NONE) names->all[i] = names->all[--names->n];
}

/* Where a path leads to; its node is NONE where nothing is. */
static Name resolve(const Names *names, const char *path) {
    Name at = {.node = ROOT};
    if (!strcmp(path, ".")) return at;
    for (const char *end; *path; path = *end ? end + 1 : end) {
        end = path + strcspn(path, "/");
        at.folder = at.node;
        snprintf(at.text, sizeof at.text, "%.*s", (int)(end - path), path);
        int i = find(names, at.folder, at.text);
        at.node = i == NONE ? NONE : names->all[i].node;
    }
    return at;
}

static bool is_about_names(const Op *op) {
    RecordKind k = op->record.kind;
    return k == RECORD_CREATE || k == RECORD_MKDIR || k == RECORD_RENAME || k == RECORD_REMOVE;
}

static void apply(Names *names, const Op *op) {
    int at = find(names, op->from.folder, op->from.text);
    if (op->record.kind == RECORD_CREATE || op->record.kind == RECORD_MKDIR) set(names, &op->from, op->node);
    if (op->record.kind == RECORD_REMOVE) drop(names, &op->from);
    if (op->record.kind != RECORD_RENAME) return;
    if (at != NONE && names->all[at].node == op->node) drop(names, &op->from);
    set(names, &op->to, op->node);
}

/* ---- reading ---- */

static int add_node(Power *p, bool folder) {
    BUG_ON(p->n_nodes >= (int)COUNTOF(p->nodes));
    p->nodes[p->n_nodes] = (Node){.folder = folder};
    return p->n_nodes++;
}

static void read_folder(Power *p, int folder, const char *dir) {
    DIR *d = opendir(dir);
    BUG_ON(!d);
    for (struct dirent *e; (e = readdir(d));) {
        struct stat st;
        Name name = {.folder = folder};
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        snprintf(name.text, sizeof name.text, "%.99s", e->d_name);
        const char *path = test_text("%s/%s", dir, e->d_name);
        BUG_ON(stat(path, &st));
        int node = add_node(p, S_ISDIR(st.st_mode));
        set(&p->before, &name, node);
        if (S_ISDIR(st.st_mode))
            read_folder(p, node, path);
        else
            p->nodes[node].data = test_read_file(path, &p->nodes[node].n);
    }
    closedir(d);
}

/* Whether op is what `later` makes last. */
static bool is_synced_by(const Op *op, const Op *later) {
    if (later->record.kind != RECORD_SYNC) return false;
    return later->node == (is_about_names(op) ? op->from.folder : op->node);
}

static void read_ops(Power *p, size_t n) {
    Names names = p->before;
    for (size_t at = 0; at < n;) {
        p->ops = xrealloc(p->ops, (size_t)(p->n_ops + 1) * sizeof *p->ops);
        Op *op = &p->ops[p->n_ops++];
        memcpy(&op->record, p->text + at, sizeof op->record);
        op->path = p->text + at + sizeof op->record;
        op->data = op->path + op->record.n_path + op->record.n_other;
        at = (size_t)(op->data - p->text) + op->record.n;
        op->from = resolve(&names, op->path);
        op->to = resolve(&names, op->path + op->record.n_path);
        op->node = op->from.node;
        op->synced = INT_MAX;
        if (op->record.kind == RECORD_CREATE || op->record.kind == RECORD_MKDIR)
            op->node = add_node(p, op->record.kind == RECORD_MKDIR);
        if (is_about_names(op)) apply(&names, op);
    }
    for (int i = 0; i < p->n_ops; i++)
        for (int k = i + 1; k < p->n_ops && p->ops[i].synced == INT_MAX; k++)
            if (is_synced_by(&p->ops[i], &p->ops[k])) p->ops[i].synced = k;
}

/* ---- a state ---- */

static bool is_open_at(const Op *op, int moment) { return op->synced >= moment; }

/* How far each file is at a moment: its writes, and those of them that are open. */
typedef struct Look {
    int moment, writes[256], open[256];
} Look;

static Look look(const Power *p, int moment) {
    Look l = {.moment = moment};
    for (int i = 0; i < moment; i++) {
        const Op *op = &p->ops[i];
        if (op->record.kind != RECORD_WRITE && op->record.kind != RECORD_TRUNCATE) continue;
        if (op->node == NONE) continue;
        l.writes[op->node]++;
        l.open[op->node] += is_open_at(op, moment);
    }
    return l;
}

/* How many choices there are: 2 for each open op about names, VARIANTS for each file with open writes. */
static uint64_t count_choices(const Power *p, const Look *l) {
    uint64_t n = 1;
    for (int i = 0; i < l->moment; i++)
        if (is_about_names(&p->ops[i]) && is_open_at(&p->ops[i], l->moment)) n *= 2;
    for (int node = 0; node < p->n_nodes; node++)
        if (l->open[node]) n *= VARIANTS;
    return n;
}

/* The names, and each file's variant. */
static Names choose(const Power *p, const Look *l, uint64_t choice, Variant variants[256]) {
    Names names = p->before;
    for (int i = 0; i < l->moment; i++) {
        const Op *op = &p->ops[i];
        bool open = is_open_at(op, l->moment);
        if (!is_about_names(op)) continue;
        if (!open || choice % 2) apply(&names, op);
        if (open) choice /= 2;
    }
    for (int node = 0; node < p->n_nodes; node++) {
        variants[node] = l->open[node] ? choice % VARIANTS : VARIANT_ALL;
        if (l->open[node]) choice /= VARIANTS;
    }
    return names;
}

/* [n] bytes; what of them is of no write is zero. */
static void put(Buffer *b, const Op *op, size_t n, bool zeros) {
    size_t end = (size_t)op->record.offset + n;
    static const char nothing[4096];
    while (b->n < end) buffer_append(b, nothing, MIN(end - b->n, sizeof nothing));
    if (zeros)
        memset(b->data + op->record.offset, 0, n);
    else
        memcpy(b->data + op->record.offset, op->data, n);
}

static Buffer content(const Power *p, const State *s, int node, Variant variant) {
    Buffer b = {0};
    int open = 0, seen = 0;
    buffer_append(&b, p->nodes[node].data ? p->nodes[node].data : "", p->nodes[node].n);
    for (int i = 0; i < s->moment; i++)
        open += p->ops[i].node == node && p->ops[i].record.kind == RECORD_WRITE && is_open_at(&p->ops[i], s->moment);
    for (int i = 0; i < s->moment; i++) {
        const Op *op = &p->ops[i];
        bool is_open = is_open_at(op, s->moment), write = op->record.kind == RECORD_WRITE;
        if (op->node != node || (!write && op->record.kind != RECORD_TRUNCATE)) continue;
        if (is_open && variant == VARIANT_NONE) break;
        if (!write) {
            b.n = 0;
            continue;
        }
        seen += is_open;
        bool last = is_open && seen == open;
        size_t half = op->record.n / 2 / SECTOR * SECTOR;
        if (is_open && variant == VARIANT_FIRST && seen > (open + 1) / 2) break;
        if (is_open && variant == VARIANT_LAST && !last)
            put(&b, op, op->record.n, true);
        else
            put(&b, op, last && variant == VARIANT_CUT ? half : op->record.n, is_open && variant == VARIANT_ZEROS);
    }
    return b;
}

static void write_folder(const Power *p, const State *s, const Names *names, const Variant *variants, int folder,
                         const char *dir) {
    BUG_ON(mkdir(dir, 0777));
    for (int i = 0; i < names->n; i++) {
        const Name *name = &names->all[i];
        if (name->folder != folder) continue;
        const char *path = test_text("%s/%s", dir, name->text);
        if (p->nodes[name->node].folder) {
            write_folder(p, s, names, variants, name->node, path);
            continue;
        }
        Buffer b = content(p, s, name->node, variants[name->node]);
        test_write_file(path, b.n ? b.data : "", b.n);
        buffer_free(&b);
    }
}

void power_write(const Power *p, int i, const char *dir, char what[200]) {
    const State *s = &p->states[i];
    Variant variants[256];
    Look l = look(p, s->moment);
    Names names = choose(p, &l, s->choice, variants);
    const Op *last = s->moment ? &p->ops[s->moment - 1] : NULL;
    int n = snprintf(what, 200, "power gone after op %d (%.60s), choice %llu", s->moment, last ? last->path : "none",
                     (unsigned long long)s->choice);
    for (int node = 0; node < p->n_nodes && n < 150; node++)
        if (l.open[node]) n += snprintf(what + n, (size_t)(200 - n), ", %s", variant_names[variants[node]]);
    write_folder(p, s, &names, variants, ROOT, dir);
}

/* ---- all states ---- */

static int by_place(const void *a, const void *b) {
    const Name *x = a, *y = b;
    return x->folder != y->folder ? x->folder - y->folder : strcmp(x->text, y->text);
}

/* States with the same digest are the same. Of a temporary file, which nobody reads, only the variant counts. */
static void digest(const Power *p, const Look *l, uint64_t choice, unsigned char out[SHA256_BYTES]) {
    Variant variants[256];
    Names names = choose(p, l, choice, variants);
    Sha256 sum;
    sha256_init(&sum);
    qsort(names.all, (size_t)names.n, sizeof *names.all, by_place);
    for (int i = 0; i < names.n; i++) {
        const Name *name = &names.all[i];
        int node = name->node;
        bool temporary = strstr(name->text, ".tmp");
        int state[] = {name->folder, temporary ? 0 : node, variants[node], temporary ? 0 : l->writes[node],
                       temporary ? 0 : l->open[node]};
        sha256_add(&sum, state, sizeof state);
        sha256_add(&sum, name->text, strlen(name->text) + 1);
    }
    sha256_peek(&sum, out);
}

/* None and all of it, and what lies between: everything where that is little, else a part that is the same each time.
 */
static void add_states(Power *p, int moment, int most, unsigned char (**seen)[SHA256_BYTES]) {
    Look l = look(p, moment);
    uint64_t n = count_choices(p, &l), stride = n > (uint64_t)most ? n / (uint64_t)most | 1 : 1;
    for (uint64_t choice = 0; choice < n; choice += choice + stride < n || choice == n - 1 ? stride : n - 1 - choice) {
        State s = {moment, choice};
        unsigned char sum[SHA256_BYTES];
        digest(p, &l, choice, sum);
        int same = 0;
        while (same < p->n_states && memcmp((*seen)[same], sum, sizeof sum)) same++;
        if (same < p->n_states) continue;
        p->states = xrealloc(p->states, (size_t)(p->n_states + 1) * sizeof *p->states);
        *seen = xrealloc(*seen, (size_t)(p->n_states + 1) * sizeof **seen);
        memcpy((*seen)[p->n_states], sum, sizeof sum);
        p->states[p->n_states++] = s;
    }
}

Power *power_open(const char *record, const char *before, int most) {
    Power *p = xcalloc(1, sizeof *p);
    unsigned char(*seen)[SHA256_BYTES] = NULL;
    size_t n;
    p->text = test_read_file(record, &n);
    add_node(p, true);
    read_folder(p, ROOT, before);
    read_ops(p, n);
    for (int moment = 0; moment <= p->n_ops; moment++) add_states(p, moment, most, &seen);
    free(seen);
    return p;
}

void power_close(Power *p) {
    for (int i = 0; i < p->n_nodes; i++) free(p->nodes[i].data);
    free(p->text);
    free(p->ops);
    free(p->states);
    free(p);
}

int power_states(const Power *p) { return p->n_states; }

static void add_order(const Power *p, bool beside, Buffer *b) {
    static const char *const verbs[RECORD_KINDS] = {"create", "mkdir", "write", "empty", "sync", "rename", "remove"};
    const Op *before = NULL;
    for (const Op *op = p->ops; op < p->ops + p->n_ops; op++) {
        if (op->record.beside != beside) continue;
        bool more = before && before->record.kind == RECORD_WRITE && before->node == op->node;
        if (!before && beside) buffer_text(b, "beside:\n");
        before = op;
        if (more && op->record.kind == RECORD_WRITE) continue;
        buffer_print(b, "%s %s", verbs[op->record.kind], op->path);
        if (op->record.kind == RECORD_RENAME) buffer_print(b, " to %s", op->path + op->record.n_path);
        buffer_text(b, "\n");
    }
}

char *power_order(const Power *p) {
    Buffer b = {0};
    add_order(p, false, &b);
    add_order(p, true, &b);
    buffer_append(&b, "", 1);
    return b.data;
}
