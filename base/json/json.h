/* json: what cJSON leaves open, closed. cJSON accepts trailing garbage, duplicate keys, raw control characters, numbers
 * such as "01" and invalid UTF-8, and cuts a string at \u0000; what passes json_check means the same to cJSON. */
#ifndef NOISED_JSON_H
#define NOISED_JSON_H

#include "base/err.h"

#include <cjson/cJSON.h>

/* RFC 8259 to the letter, and moreover: valid UTF-8, no byte order mark, no \u0000, no lone surrogates, no number
 * beyond the range of a double or longer than 63 characters (cJSON's buffer), no key twice in one object (compared
 * after unescaping), arrays and objects nested at most max_depth, at most max_values values (a container counts as
 * one, keys do not). Time n log n, memory in proportion to n; any bytes may be given. The message says where. */
int json_check(const char *text, size_t n, int max_depth, size_t max_values, Err *err);

/* json_check, then cJSON: NULL on failure. The caller frees with cJSON_Delete. A double does not hold every integer of
 * 16 digits and more: such a number keeps its digits, for json_int64, in its valuestring. */
cJSON *json_parse(const char *text, size_t n, int max_depth, size_t max_values, Err *err);

/* json_parse of a file of at most max_bytes; messages begin with its path. */
cJSON *json_load(const char *path, size_t max_bytes, int max_depth, size_t max_values, Err *err);

/* In text that json_check lets through, or json_write has written: behind the string or the brackets that begin at
 * `at`; behind one byte of anything else. */
const char *json_skip(const char *at);

#define JSON_INTEGER_MAX ((int64_t)1 << 53) /* up to here doubles hold every integer */

/* item as an integer in low..high, both within +-JSON_INTEGER_MAX: false when it is none. */
bool json_integer(const cJSON *item, int64_t low, int64_t high, int64_t *out);

/* item as any int64_t, to the last digit; from +-JSON_INTEGER_MAX on it must be written in digits alone. */
bool json_int64(const cJSON *item, int64_t *out);

#endif
