/* schema: a JSON schema (draft 2020-12) as nodes. What it lets through is narrower than the schema in these ways, and
 * never wider: every text of the form is an instance.
 *
 * - Properties come in the order in which the schema has them. An object with `properties` has no others unless
 *   `additionalProperties` says so; the names of these are written without escapes. An array with `prefixItems` has no
 *   further items unless `items` says so; an array of `items` is `prefixItems`.
 * - Where `type` is absent, the keywords' own type is meant; a schema without keywords is any value.
 * - `oneOf` is `anyOf`, where no value can be of two of its schemas: their types differ, or their values are listed, or
 *   a property that both require has different ones. Else it is refused.
 * - Values of `enum` and `const` have their members in order, numbers are as json_nodes.h says; bounds of numbers that
 * are no integers must be integers themselves. `pattern` is an expression of regex.h, and a string has either a
 * pattern, a format or lengths. The formats are those of schema_string.
 *
 * Titles, descriptions and the like are taken and say nothing. Whatever else a schema has is an error that names it by
 * its path, a keyword without effect included: nobody should think that it was kept. Unless it may be left out: then
 * the schema is read as if the keyword were not there. */
#ifndef NOISED_FORM_SCHEMA_H
#define NOISED_FORM_SCHEMA_H

#include "base/buffer.h"
#include "server/form/json_nodes.h"

/* Where a part stands: made on the stack, from the outside in. */
typedef struct SchemaPath {
    const struct SchemaPath *up;
    const char *name; /* NULL: of an array, */
    int index;        /* this element */
} SchemaPath;

enum { SCHEMA_SKIPPED = 256 };

typedef struct SchemaReader {
    /* The node of a schema; -1, and the error filled. What has schemas in it asks here: schema_node.c calls them all,
     * so they do not call it. */
    int (*node)(struct SchemaReader *r, const cJSON *schema, const SchemaPath *path);
    Form *form;
    JsonNodes json;
    const cJSON *root;
    const SchemaPath *root_path;
    const cJSON **known; /* [GRAPH_NAMES] schemas that $ref leads to */
    int *names;          /* [GRAPH_NAMES] their nodes */
    int n_known;
    int n_looks; /* by schema_apart */
    FormError *error;
    int depth;                   /* schemas within each other, by whatever way */
    const SchemaPath *failed_in; /* the schema whose keyword was refused last; */
    const char *failed;          /* NULL: not one keyword */
    Buffer *left;                /* NULL, or what cannot be kept is left out, and its path with a NUL goes here */
    const cJSON *skipped[SCHEMA_SKIPPED]; /* of the whole schema that is read: */
    int n_skipped;                        /* left out so often; an entry may be NULL */
} SchemaReader;

/* A form of one schema or several: open, a node of each, close with the node of all. (schema_node.c) */
int schema_open(SchemaReader *r, FormError *e);                                /* -1 with e filled */
int schema_root(SchemaReader *r, const cJSON *schema, const SchemaPath *path); /* -1, as `node` */
Form *schema_close(SchemaReader *r, int root); /* -1: something has failed; NULL with the error filled */

int schema_fail(SchemaReader *r, const SchemaPath *path, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* After a failure: whether what has failed is left out, and goes to r->left. `keyword`, which may be NULL, is then none
 * that schema_keyword finds. */
bool schema_leave_out(SchemaReader *r, const cJSON *keyword);

/* The schema's keyword of that name; NULL when there is none, or it is left out. */
const cJSON *schema_keyword(const SchemaReader *r, const cJSON *schema, const char *name);
bool schema_skips(const SchemaReader *r, const cJSON *keyword);

/* The same of one type each: schema_types.c and schema_object.c. */
int schema_object(SchemaReader *r, const cJSON *schema, const SchemaPath *path);
int schema_array(SchemaReader *r, const cJSON *schema, const SchemaPath *path);
int schema_string(SchemaReader *r, const cJSON *schema, const SchemaPath *path);
int schema_number(SchemaReader *r, const cJSON *schema, bool integer, const SchemaPath *path);

/* The keyword's integer, `fallback` where it is absent; -1 on failure. */
int schema_count(SchemaReader *r, const cJSON *schema, const char *keyword, int fallback, const SchemaPath *path,
                 int *out);

/* These let *looks grow by the members and values that they pass. (schema.c)
 * The member of that name, NULL for none; whether "required" of a schema of objects has the name; what $ref leads to,
 * NULL, and the error filled, when there is nothing. */
const cJSON *schema_member(const cJSON *object, const char *name, int *looks);
bool schema_requires(const cJSON *schema, const char *name, int *looks);
const cJSON *schema_follow(SchemaReader *r, const cJSON *ref, const SchemaPath *path, int *looks);

/* Types as bits; and whether no value is of both, as far as that shows soon. (schema_apart.c) */
typedef enum SchemaType {
    SCHEMA_NULL = 1,
    SCHEMA_BOOLEAN = 2,
    SCHEMA_INTEGER = 4,
    SCHEMA_NUMBER = 8, /* that is no integer */
    SCHEMA_STRING = 16,
    SCHEMA_ARRAY = 32,
    SCHEMA_OBJECT = 64,
    SCHEMA_ANY = 127
} SchemaType;
int schema_type_named(const char *name);                       /* of "type"; 0: there is none */
int schema_type_of(const cJSON *value);                        /* of a value */
int schema_types_within(SchemaReader *r, const cJSON *schema); /* that values of it may have at most */
bool schema_apart(SchemaReader *r, const cJSON *a, const cJSON *b);

#endif
