/* json_write: JSON into a Buffer, value by value. Commas, quotes and escapes come out right by themselves:
 *
 *     json_open(b, NULL, '{');
 *     json_put_int(b, "index", 3);
 *     json_open(b, "ids", '[');
 *     json_put_int(b, NULL, 7);
 *     json_close(b, ']');
 *     json_close(b, '}');           {"index":3,"ids":[7]}
 *
 * The key is a member's, NULL for what has none: an element of an array, or a value that stands alone. Bytes that are
 * appended to the buffer otherwise are none of this: what is put behind them begins without a comma. */
#ifndef NOISED_JSON_WRITE_H
#define NOISED_JSON_WRITE_H

#include "base/buffer.h"

#include <cjson/cJSON.h>
#include <stdio.h>

/* How what follows is laid out, until `layout` of the buffer says otherwise: nothing but commas and colons; a space
 * behind each; or moreover each value on a line of its own, with two spaces before it. */
typedef enum JsonLayout { JSON_DENSE, JSON_SPACED, JSON_LINES } JsonLayout;

void json_open(Buffer *b, const char *key, char bracket); /* '{' or '[' */
void json_close(Buffer *b, char bracket);

void json_key(Buffer *b, const char *text, size_t n); /* one with any bytes; its value follows, with NULL */

void json_put_null(Buffer *b, const char *key);
void json_put_bool(Buffer *b, const char *key, bool value);
void json_put_int(Buffer *b, const char *key, int64_t value);
void json_put_uint(Buffer *b, const char *key, uint64_t value);
void json_put_ints(Buffer *b, const char *key, const int *x, int n); /* an array */

/* The shortest decimal form that reads back as the same float; JSON has no infinities: -inf is written as -9999.0,
 * as vLLM does, NaN as null. */
void json_put_float(Buffer *b, const char *key, float value);
void json_put_floats(Buffer *b, const char *key, const float *x, int n); /* an array */

/* What is not finite is null. Of so many digits at most; or of the fewest from 15 on that are read as the same number.
 */
void json_put_rounded(Buffer *b, const char *key, double value, int digits);
void json_put_double(Buffer *b, const char *key, double value);

/* A string. What is not valid UTF-8 becomes U+FFFD. */
void json_put_bytes(Buffer *b, const char *key, const char *text, size_t n);
void json_put_text(Buffer *b, const char *key, const char *text); /* NULL: null */
void json_put_some(Buffer *b, const char *key, const char *text); /* the same, and "" is null too */

/* What is JSON already: a value; or with a NULL key elements or members, perhaps none. */
void json_put_raw(Buffer *b, const char *key, const char *json, size_t n);

/* A tree of cJSON, its numbers to the last digit, as json_parse keeps them. */
void json_put_item(Buffer *b, const char *key, const cJSON *item);

/* Its text with a NUL behind it, to be freed, NULL when memory ran out; the buffer is empty afterwards. */
char *json_try_text(Buffer *b);

/* The two ends of a text that no server sends: where memory ran out they end the process, as the x-functions of
 * memory.h do, and the buffer is empty afterwards. json_end_text returns it with a NUL behind it, to be freed;
 * json_end_line closes the object that it is, and writes it as a line: -1 when errno says why. */
char *json_end_text(Buffer *b);
int json_end_line(Buffer *b, FILE *f);

#endif
