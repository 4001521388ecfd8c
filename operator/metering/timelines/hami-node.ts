import type { RawObject } from '../../kubernetes/source.ts';
import { isRecord } from '../../model/is-record.ts';
import { parseJson } from '../../model/parse-json.ts';
import { gpuModel } from './gpu-device.ts';
import { recordAt, textAt } from '../../kubernetes/raw-fields.ts';

/**
 * HAMi shares NVIDIA GPUs under the resource name of full ones. Its device plugin advertises each
 * GPU as often as it may be shared. It registers the physical GPUs in this annotation of the node
 * (docs/explanation/gpus.md#hami; https://github.com/Project-HAMi/HAMi, `pkg/device/devices.go`).
 */
const REGISTER = 'hami.io/node-nvidia-register';

/** The resource by which HAMi counts shares. */
export const HAMI_RESOURCE = 'nvidia.com/gpu';

/** One physical GPU of a node. */
export interface HamiDevice {
  readonly uuid: string;
  /** Allocatable MiB: with HAMi's memory scaling more than the GPU has. 0 means unknown. */
  readonly memory: number;
  /** Percent of its cores that may be allocated. */
  readonly cores: number;
  /** Its model, spelled as in node labels. */
  readonly type: string;
  /** It is unhealthy and cannot be allocated. */
  readonly lost?: true;
}

/** A node of 16 GPUs with all their MIG profiles takes half of this. */
const MOST_TEXT = 65_536;
const MOST_DEVICES = 256;
const MOST_NAME = 128;

/** Returns the devices in a node's annotation; undefined where HAMi does not serve the node. */
export function hamiDevices(metadata: RawObject): readonly HamiDevice[] | undefined {
  const text = textAt(recordAt(metadata, 'annotations'), REGISTER)?.trim();
  if (text === undefined || text.length > MOST_TEXT) return undefined;
  const read = text.startsWith('[') ? fromJson(text) : fromText(text);
  const devices = new Map(read.slice(0, MOST_DEVICES).map((device) => [device.uuid, device]));
  if (devices.size === 0) return undefined;
  return [...devices.values()].toSorted((a, b) => (a.uuid < b.uuid ? -1 : 1));
}

function fromJson(text: string): readonly HamiDevice[] {
  const parsed = parseJson(text);
  if (!Array.isArray(parsed)) return [];
  return parsed.filter(isRecord).flatMap((entry) =>
    deviceOf({
      uuid: textAt(entry, 'id'),
      memory: Number(entry['devmem'] ?? 0),
      cores: Number(entry['devcore'] ?? 0),
      model: textAt(entry, 'type'),
      // HAMi omits the field when it is false.
      healthy: entry['health'] === true,
    }),
  );
}

/** `id,count,devmem,devcore,type,numa,health[,index,mode]`, devices separated by colons. */
function fromText(text: string): readonly HamiDevice[] {
  return text.split(':', MOST_DEVICES).flatMap((entry) => {
    const fields = entry.split(',');
    if (fields.length !== 7 && fields.length !== 9) return [];
    const [uuid, , memory, cores, model, , health = ''] = fields;
    const healthy = /^(1|t|true)$/i.test(health);
    return deviceOf({
      uuid,
      memory: integerIn(memory),
      cores: integerIn(cores),
      model,
      healthy,
    });
  });
}

interface Registered {
  readonly uuid: string | undefined;
  readonly memory: number;
  readonly cores: number;
  readonly model: string | undefined;
  readonly healthy: boolean;
}

function deviceOf({ uuid, memory, cores, model, healthy }: Registered): readonly HamiDevice[] {
  if (uuid === undefined || uuid === '' || uuid.length > MOST_NAME) return [];
  if (!isAmount(memory) || !isAmount(cores)) return [];
  // HAMi prefixes the vendor to names that lack it; older releases prefix every name.
  const type = gpuModel(model ?? '')
    .replace(/^NVIDIA-(?=NVIDIA-)/, '')
    .slice(0, MOST_NAME);
  return [
    { uuid, memory, cores: cores === 0 ? 100 : cores, type, ...(healthy ? {} : { lost: true }) },
  ];
}

/** Reads a decimal integer; NaN for anything else. */
export function integerIn(text: string | undefined): number {
  return text !== undefined && /^\d{1,10}$/.test(text) ? Number(text) : NaN;
}

/** Whether a number can be an amount of MiB or percent. */
export function isAmount(number: number): boolean {
  return Number.isInteger(number) && number >= 0 && number < 2 ** 40;
}
