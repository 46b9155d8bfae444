/* A fake libnvidia-ml.so.1, for tests only: answers what labctl and Ray ask NVML from the file of machine.h. */
#include "machine.h"

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, NO_DRIVER = 9, NO_FUNCTION = 13, LOST = 15 };

typedef char name_t[LENGTH];
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned gpu, memory; } utilization_t;
typedef struct {
  char bus_legacy[16];
  unsigned domain, bus, device, id, subsystem;
  char bus_id[32];
} pci_t;

static name_t handles[MOST]; /* a handle is the address of a UUID: it outlives the GPU */

static void *handle_of(const char *uuid) {
  int i = 0;
  while (i < MOST - 1 && handles[i][0] && strcmp(handles[i], uuid)) i++;
  snprintf(handles[i], LENGTH, "%s", uuid);
  return handles[i];
}

/* The GPU of a handle as it is now; an error of NVML where it is gone, or the driver has no such function. */
static int look(void *handle, const char *function, struct machine *m, struct gpu **g) {
  char word[LENGTH + 2];
  if (read_machine(m)) return NO_DRIVER;
  snprintf(word, sizeof word, " %s ", function);
  if (strstr(m->without, word)) return NO_FUNCTION;
  for (int i = 0; i < m->count; i++)
    if (!strcmp(m->gpus[i].uuid, handle)) {
      *g = &m->gpus[i];
      return m->gpus[i].lost || !is_visible(m, *g) ? LOST : OK;
    }
  return LOST;
}

#define LOOK(handle) \
  static __thread struct machine m; struct gpu *g = NULL; \
  int code = look(handle, __func__, &m, &g); \
  if (code) return code

/* The index-th visible GPU, or slice of `parent`. */
static struct gpu *pick(struct machine *m, const char *parent, unsigned index) {
  for (int i = 0; i < m->count; i++)
    if (!strcmp(m->gpus[i].parent, parent) && is_visible(m, &m->gpus[i]) && !index--) return &m->gpus[i];
  return NULL;
}

static unsigned position(struct machine *m, struct gpu *g) {
  unsigned index = 0;
  const char *uuid = g->parent[0] ? g->parent : g->uuid;
  while (pick(m, "", index) && strcmp(pick(m, "", index)->uuid, uuid)) index++;
  return index;
}

int nvmlInit_v2(void) { static struct machine m; return read_machine(&m) ? NO_DRIVER : OK; }
int nvmlInitWithFlags(unsigned flags) { (void)flags; return nvmlInit_v2(); }
int nvmlShutdown(void) { return OK; }

int nvmlSystemGetDriverVersion(char *text, unsigned length) {
  static struct machine m;
  if (read_machine(&m)) return NO_DRIVER;
  snprintf(text, length, "%s", m.driver);
  return OK;
}

const char *nvmlErrorString(int code) {
  switch (code) {
    case INVALID: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case NOT_FOUND: return "Not Found";
    case NO_DRIVER: return "Driver Not Loaded";
    case NO_FUNCTION: return "Function Not Found";
    case LOST: return "GPU is lost";
    default: return "Unknown Error";
  }
}

int nvmlDeviceGetCount_v2(unsigned *count) {
  static struct machine m;
  if (read_machine(&m)) return NO_DRIVER;
  for (*count = 0; pick(&m, "", *count);) ++*count;
  return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
  static struct machine m;
  struct gpu *g = read_machine(&m) ? NULL : pick(&m, "", index);
  if (!g) return INVALID;
  *handle = handle_of(g->uuid);
  return g->lost ? LOST : OK;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
  static struct machine m;
  if (read_machine(&m)) return NO_DRIVER;
  for (int i = 0; i < m.count; i++)
    if (!strcmp(m.gpus[i].uuid, uuid) && is_visible(&m, &m.gpus[i])) {
      *handle = handle_of(uuid);
      return m.gpus[i].lost ? LOST : OK;
    }
  return NOT_FOUND;
}

int nvmlDeviceGetUUID(void *d, char *text, unsigned length) {
  LOOK(d);
  snprintf(text, length, "%s", g->uuid);
  return OK;
}

int nvmlDeviceGetName(void *d, char *text, unsigned length) {
  LOOK(d);
  snprintf(text, length, "%s", g->name);
  return OK;
}

int nvmlDeviceGetIndex(void *d, unsigned *index) { LOOK(d); *index = position(&m, g); return OK; }
int nvmlDeviceGetMinorNumber(void *d, unsigned *minor) { LOOK(d); *minor = position(&m, g); return OK; }
int nvmlDeviceGetTemperature(void *d, int sensor, unsigned *t) { (void)sensor; LOOK(d); *t = g->temperature; return OK; }
int nvmlDeviceGetPowerUsage(void *d, unsigned *milliwatt) { LOOK(d); *milliwatt = 1000 * (60 + 6 * g->utilization); return OK; }

int nvmlDeviceGetMemoryInfo(void *d, memory_t *memory) {
  LOOK(d);
  memory->total = (unsigned long long)g->memory << 20;
  memory->used = (unsigned long long)g->used << 20;
  memory->free = memory->total - memory->used;
  return OK;
}

int nvmlDeviceGetUtilizationRates(void *d, utilization_t *rates) {
  LOOK(d);
  rates->gpu = rates->memory = g->utilization;
  return OK;
}

int nvmlDeviceGetTemperatureThreshold(void *d, int which, unsigned *degrees) {
  LOOK(d);
  if (which > 1) return NOT_SUPPORTED;
  *degrees = which == 0 ? 95 : 89; /* shut-down, slow-down */
  return OK;
}

int nvmlDeviceGetTotalEccErrors(void *d, int type, int counter, unsigned long long *count) {
  (void)counter;
  LOOK(d);
  *count = type == 1 ? g->ecc : 0; /* uncorrected */
  return OK;
}

int nvmlDeviceGetRemappedRows(void *d, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
  LOOK(d);
  *corrected = *uncorrected = 0;
  *pending = g->pending;
  *failed = g->failed;
  return OK;
}

int nvmlDeviceGetCurrentClocksEventReasons(void *d, unsigned long long *bits) { LOOK(d); *bits = g->reasons; return OK; }
int nvmlDeviceGetCurrPcieLinkGeneration(void *d, unsigned *x) { LOOK(d); *x = 5; return OK; }
int nvmlDeviceGetMaxPcieLinkGeneration(void *d, unsigned *x) { LOOK(d); *x = 5; return OK; }
int nvmlDeviceGetCurrPcieLinkWidth(void *d, unsigned *x) { LOOK(d); *x = 16; return OK; }
int nvmlDeviceGetMaxPcieLinkWidth(void *d, unsigned *x) { LOOK(d); *x = 16; return OK; }

int nvmlDeviceGetPciInfo_v3(void *d, pci_t *pci) {
  LOOK(d);
  memset(pci, 0, sizeof *pci);
  pci->bus = 0x17 + position(&m, g);
  snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
  return OK;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *count, void *processes) {
  (void)processes;
  LOOK(d);
  *count = 0;
  return OK;
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(void *d, unsigned *count, void *processes) {
  return nvmlDeviceGetComputeRunningProcesses_v3(d, count, processes);
}

int nvmlDeviceGetMigMode(void *d, unsigned *now, unsigned *later) { LOOK(d); *now = *later = g->mig; return OK; }
int nvmlDeviceGetMaxMigDeviceCount(void *d, unsigned *count) { LOOK(d); *count = g->mig ? 7 : 0; return OK; }

int nvmlDeviceGetMigDeviceHandleByIndex(void *d, unsigned index, void **handle) {
  LOOK(d);
  struct gpu *part = pick(&m, g->uuid, index);
  if (!part) return NOT_FOUND;
  *handle = handle_of(part->uuid);
  return OK;
}
