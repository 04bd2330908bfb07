#include "base/json/json.h"
#include "base/json_write.h"
#include "server/api/llama/llama.h"

#include <string.h>

/* Behind the value. */
static const char *skip(const char *p) {
    while (!strchr(",}]", *p)) p = json_skip(p); /* also at the end, a NUL */
    return p;
}

/* The value of the object's member whose name is the n bytes; NULL when there is none. */
static const char *member(const char *object, const char *name, size_t n) {
    const char *p = object + 1;
    if (*object != '{' || *p == '}') return NULL;
    for (;; p++) {
        const char *key = p + 1, *end = json_skip(p);
        if ((size_t)(end - 1 - key) == n && !memcmp(key, name, n)) return end + 1;
        p = skip(end + 1);
        if (*p != ',') return NULL;
    }
}

static const char *find(const char *object, const char *name) {
    for (;;) {
        size_t n = strcspn(name, "/");
        object = member(object, name, n);
        if (!object || !name[n]) return object;
        name += n + 1;
    }
}

void llama_pick(Buffer *out, const char *object, const char *names) {
    json_open(out, NULL, '{');
    for (; *names; names += strlen(names) + 1) {
        const char *value = find(object, names);
        if (value) json_put_raw(out, names, value, (size_t)(skip(value) - value));
    }
    json_close(out, '}');
}
