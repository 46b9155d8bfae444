/* A fake libcuda.so.1, for tests only: the GPUs and slices of machine.h that this process may use. It computes
   nothing: a context cannot be made. */
#include "machine.h"

enum { OK = 0, INVALID = 1, NO_DEVICE = 100, INVALID_DEVICE = 101, NOT_SUPPORTED = 801 };

static struct machine m;
static struct gpu *usable[MOST];
static int number;

/* Whether CUDA_VISIBLE_DEVICES, where it is set, names this GPU by its UUID or position. */
static int is_chosen(const char *uuid, int index) {
  char list[4096], *word, *rest, *end;
  const char *set = getenv("CUDA_VISIBLE_DEVICES");
  if (!set) return 1;
  snprintf(list, sizeof list, "%s", set);
  for (word = strtok_r(list, ",", &rest); word; word = strtok_r(NULL, ",", &rest))
    if (!strncmp(uuid, word, strlen(word)) || (strtol(word, &end, 10) == index && !*end)) return 1;
  return 0;
}

int cuInit(unsigned flags) {
  int index = 0;
  (void)flags;
  number = 0;
  if (read_machine(&m)) return NO_DEVICE;
  for (int i = 0; i < m.count; i++) {
    struct gpu *g = &m.gpus[i];
    if (g->mig || g->lost || !is_named(g->uuid)) continue;
    if (is_chosen(g->uuid, index++)) usable[number++] = g;
  }
  return number ? OK : NO_DEVICE;
}

int cuDriverGetVersion(int *version) { *version = 13000; return OK; }
int cuDeviceGetCount(int *count) { *count = number; return OK; }
int cuDeviceGet(int *device, int index) { *device = index; return index < number ? OK : INVALID_DEVICE; }

int cuDeviceGetName(char *text, int length, int device) {
  snprintf(text, length, "%s", usable[device]->name);
  return OK;
}

int cuDeviceGetUuid_v2(unsigned char *bytes, int device) {
  int count = 0;
  for (const char *c = strchr(usable[device]->uuid, '-'); c && *c && count < 16; c++) {
    unsigned byte;
    if (*c == '-' || sscanf(c, "%2x", &byte) != 1) continue;
    bytes[count++] = byte;
    c++;
  }
  return OK;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = (size_t)usable[device]->memory << 20; return OK; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { (void)attribute; (void)device; *value = 0; return OK; }
int cuCtxCreate_v2(void **context, unsigned flags, int device) { (void)context; (void)flags; (void)device; return NOT_SUPPORTED; }

int cuGetErrorString(int code, const char **text) {
  *text = code == NO_DEVICE ? "no CUDA-capable device is detected" : code == NOT_SUPPORTED ? "operation not supported" : "unknown error";
  return OK;
}
