/* What no value can be of two schemas by: the types, the listed values, or a property that both require.
 *
 * Every look at a member or a value counts, of all schemas together: a body of 4 KB once took 20 s for branches that
 * refer to each other through schemas of many members. Behind the last one nothing is known to be apart. */
#include "server/form/schema.h"

#include "base/json/json_reader.h"

#include <math.h>
#include <string.h>

enum { DEEP = 8, MOST_LOOKS = 1 << 20 };

static bool gave_up(const SchemaReader *r) { return r->n_looks > MOST_LOOKS; }

/* NULL too where that is too far, or it is left out. */
static const cJSON *member(SchemaReader *r, const cJSON *o, const char *name) {
    const cJSON *x = gave_up(r) ? NULL : schema_member(o, name, &r->n_looks);
    return x && schema_skips(r, x) ? NULL : x;
}

int schema_type_named(const char *name) {
    static const struct {
        const char *name;
        int types;
    } names[] = {{"null", SCHEMA_NULL},     {"boolean", SCHEMA_BOOLEAN}, {"integer", SCHEMA_INTEGER},
                 {"string", SCHEMA_STRING}, {"array", SCHEMA_ARRAY},     {"number", SCHEMA_INTEGER | SCHEMA_NUMBER},
                 {"object", SCHEMA_OBJECT}};
    for (size_t i = 0; i < COUNTOF(names); i++)
        if (!strcmp(name, names[i].name)) return names[i].types;
    return 0;
}

int schema_type_of(const cJSON *v) {
    if (cJSON_IsNumber(v)) return v->valuedouble == floor(v->valuedouble) ? SCHEMA_INTEGER : SCHEMA_NUMBER;
    if (cJSON_IsString(v)) return SCHEMA_STRING;
    if (cJSON_IsBool(v)) return SCHEMA_BOOLEAN;
    if (cJSON_IsArray(v)) return SCHEMA_ARRAY;
    return cJSON_IsObject(v) ? SCHEMA_OBJECT : SCHEMA_NULL;
}

static int nodes(const cJSON *v) {
    int n = 1;
    for (const cJSON *x = v->child; x; x = x->next) n += nodes(x);
    return n;
}

/* The one that says what values are of it: that of a $ref, of an allOf of one. NULL when that is too far. */
static const cJSON *resolve(SchemaReader *r, const cJSON *s) {
    for (int i = 0; i < DEEP && s && !gave_up(r); i++) {
        const cJSON *ref = member(r, s, "$ref"), *all = member(r, s, "allOf");
        if (!ref && !(all && all->child && !all->child->next)) return s;
        s = ref ? schema_follow(r, ref, NULL, &r->n_looks) : all->child;
    }
    return NULL;
}

static int types_within(SchemaReader *r, const cJSON *schema, int deep) {
    const cJSON *s = resolve(r, schema), *item;
    if (!cJSON_IsObject(s) || deep == 0) return SCHEMA_ANY;
    const cJSON *type = member(r, s, "type"), *values = member(r, s, "enum"), *only = member(r, s, "const");
    const cJSON *any = member(r, s, "anyOf");
    int types = 0;
    if (!any) any = member(r, s, "oneOf");
    if (only) return schema_type_of(only);
    cJSON_ArrayForEach(item, values) {
        r->n_looks++;
        types |= schema_type_of(item);
    }
    cJSON_ArrayForEach(item, any) types |= types_within(r, item, deep - 1);
    if (types) return types;
    if (cJSON_IsString(type)) return schema_type_named(type->valuestring);
    cJSON_ArrayForEach(item, type) types |= cJSON_IsString(item) ? schema_type_named(item->valuestring) : 0;
    return types ? types : SCHEMA_ANY;
}

int schema_types_within(SchemaReader *r, const cJSON *schema) {
    int types = types_within(r, schema, DEEP);
    return gave_up(r) ? SCHEMA_ANY : types;
}

/* The first value that the schema lists, and the one behind `value`. */
static const cJSON *first_listed(SchemaReader *r, const cJSON *s) {
    const cJSON *only = member(r, s, "const"), *values = member(r, s, "enum");
    return only ? only : values ? values->child : NULL;
}

/* Two objects are compared by a look for each name of the one in the other. */
static bool same_value(SchemaReader *r, const cJSON *x, const cJSON *y) {
    int64_t looks = 1 + (int64_t)nodes(x) * nodes(y);
    r->n_looks = (int)MIN(r->n_looks + looks, MOST_LOOKS + 1);
    return gave_up(r) || cJSON_Compare(x, y, true);
}

static bool lists_apart(SchemaReader *r, const cJSON *a, const cJSON *b) {
    const cJSON *first = first_listed(r, a), *second = first_listed(r, b);
    if (!first || !second) return false;
    bool only_first = member(r, a, "const"), only_second = member(r, b, "const");
    for (const cJSON *x = first; x; x = only_first ? NULL : x->next)
        for (const cJSON *y = second; y; y = only_second ? NULL : y->next)
            if (same_value(r, x, y)) return false;
    return true;
}

static bool apart(SchemaReader *r, const cJSON *x, const cJSON *y, int deep) {
    const cJSON *a = resolve(r, x), *b = resolve(r, y), *p;
    if (!a || !b || deep == 0) return false;
    if (!(types_within(r, a, DEEP) & types_within(r, b, DEEP)) || lists_apart(r, a, b)) return true;
    const cJSON *others = member(r, b, "properties");
    cJSON_ArrayForEach(p, member(r, a, "properties")) {
        if (gave_up(r)) return false;
        const cJSON *q = member(r, others, p->string);
        if (q && schema_requires(a, p->string, &r->n_looks) && schema_requires(b, p->string, &r->n_looks) &&
            apart(r, p, q, deep - 1))
            return true;
    }
    return false;
}

bool schema_apart(SchemaReader *r, const cJSON *a, const cJSON *b) { return apart(r, a, b, DEEP) && !gave_up(r); }
