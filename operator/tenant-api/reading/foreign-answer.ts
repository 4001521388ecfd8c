import { identify, metadataOf } from '../../kubernetes/resource.ts';
import type { Projected, RawObject } from '../../kubernetes/source.ts';
import { isRecord } from '../../model/is-record.ts';
import { parseJson } from '../../model/parse-json.ts';
import {
  projectLoadBalancer,
  projectVolumeClaim,
} from '../../metering/timelines/retained-objects.ts';
import { encodeJson } from '../../metering/timelines/journal-text.ts';
import { projectNode } from '../../metering/timelines/node.ts';
import { insideTenant } from '../../metering/timelines/inside-tenant.ts';
import { projectPod } from '../../metering/timelines/pod.ts';
import { recordAt, textAt } from '../../kubernetes/raw-fields.ts';
import { projectResourceClaim } from '../../metering/timelines/resource-claim.ts';
import { projectResourceSlice } from '../../metering/timelines/resource-slice.ts';
import type { Api } from '../../metering/timelines/shared-values.ts';
import { foreignObjectProblem } from './foreign-object.ts';

/** Bytes of an API server to parse. */
export interface ForeignBytes {
  /** A page of a list, or complete lines of a watch. */
  readonly what: 'page' | 'events';
  /** Plural name of the resource; see {@link isForeignKind}. */
  readonly plural: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/**
 * The parsed lists and events, in the form of Kubernetes. Each object has only its identity and
 * `view`: its projection as `encodeJson` writes it. A node also has the name of its operating
 * system.
 */
export type ForeignAnswer =
  | { readonly kind: 'page'; readonly body: unknown }
  | { readonly kind: 'events'; readonly lines: readonly string[] }
  /** Breaks Kubernetes' own rules, so the server is not trusted. */
  | { readonly kind: 'refused'; readonly reason: string }
  /** No valid answer. If it is too large, a smaller page may be valid. */
  | { readonly kind: 'failed'; readonly reason: string; readonly tooLarge?: true };

type Project = (object: RawObject, api: Api) => Projected | undefined;

const KINDS: ReadonlyMap<string, Project> = new Map<string, Project>([
  ['nodes', projectNode],
  ['pods', (object, api) => insideTenant(projectPod, api)(object)],
  ['persistentvolumeclaims', (object, api) => insideTenant(projectVolumeClaim, api)(object)],
  ['services', (object, api) => insideTenant(projectLoadBalancer, api)(object)],
  ['resourceclaims', (object, api) => insideTenant(projectResourceClaim, api)(object)],
  ['resourceslices', projectResourceSlice],
]);

/** Returns whether this module can read objects of a resource. */
export function isForeignKind(plural: string): boolean {
  return KINDS.has(plural);
}

/** Most values in one answer. A page of a hundred of the largest objects has about 50,000. */
const MOST_VALUES = 200_000;
/** Most items of a list, whatever limit was requested. */
const MOST_ITEMS = 1_000;
/** Most characters of one object's view. A node has some kilobytes, 128 devices about ten. */
const MOST_VIEW_LENGTH = 256 * 1024;
/** Most characters of a continue token: the server chooses it, and receives it back in a URL. */
const MOST_TOKEN_LENGTH = 8 * 1024;
const MOST_VERSION_LENGTH = 128;
const MOST_SYSTEM_NAME_LENGTH = 256;

/** Parses and projects bytes. It depends on nothing else, so any thread may call it. */
export function readForeignBytes({ what, plural, bytes }: ForeignBytes): ForeignAnswer {
  if (valuesIn(bytes) > MOST_VALUES) {
    return { kind: 'failed', reason: `more than ${MOST_VALUES} values at once`, tooLarge: true };
  }
  const text = new TextDecoder().decode(bytes);
  const project = KINDS.get(plural) ?? (() => undefined);
  // The objects of one answer share values, which end with the answer.
  const api = {};
  const reduce = (object: RawObject): Reduced | Refused => reduced(object, project, api);
  const answer = what === 'page' ? readPage(text, reduce) : readLines(text, reduce);
  return answer.kind === 'refused' ? { ...answer, reason: `${plural} ${answer.reason}` } : answer;
}

const COMMA = 0x2c;
const BRACE = 0x7b;
const BRACKET = 0x5b;

/** Returns an upper bound of the number of values, before any are created. */
function valuesIn(bytes: Uint8Array): number {
  let values = 0;
  for (const byte of bytes) {
    if (byte === COMMA || byte === BRACE || byte === BRACKET) values += 1;
  }
  return values;
}

type Refused = Extract<ForeignAnswer, { kind: 'refused' }>;
type Reduced = { readonly kind: 'reduced'; readonly object: RawObject };

/** The object with its identity and view only. Without an identity it has no fields. */
function reduced(object: RawObject, project: Project, api: Api): Reduced | Refused {
  const identity = identify(object);
  if (identity === undefined) return { kind: 'reduced', object: {} };
  const problem = foreignObjectProblem(object);
  if (problem !== undefined) return { kind: 'refused', reason: problem };
  const projected = project(object, api);
  const view = projected && encodeJson(projected);
  if (view !== undefined && view.length > MOST_VIEW_LENGTH) {
    const reason = `"${identity.name}": its stored view is longer than ${MOST_VIEW_LENGTH}`;
    return { kind: 'refused', reason };
  }
  const status = recordAt(object, 'status');
  const osImage = textAt(recordAt(status, 'nodeInfo'), 'osImage')?.slice(
    0,
    MOST_SYSTEM_NAME_LENGTH,
  );
  const stored = osImage === undefined ? undefined : { nodeInfo: { osImage } };
  return {
    kind: 'reduced',
    object: { metadata: identity, view, status: stored },
  };
}

type Reduce = (object: RawObject) => Reduced | Refused;

function readPage(text: string, reduce: Reduce): ForeignAnswer {
  const list = parseJson(text);
  const listed = isRecord(list) ? (list['items'] ?? []) : undefined;
  const { resourceVersion, continue: token } = metadataOf(list);
  if (!Array.isArray(listed) || !isShort(resourceVersion, MOST_VERSION_LENGTH)) {
    return { kind: 'failed', reason: 'the answer is not a Kubernetes list' };
  }
  if (listed.length > MOST_ITEMS) {
    const reason = 'the answer has many more objects than requested';
    return { kind: 'failed', reason };
  }
  if (token !== undefined && !isShort(token, MOST_TOKEN_LENGTH)) {
    return { kind: 'failed', reason: 'metadata.continue: not a text of at most 8 KiB' };
  }
  const items: RawObject[] = [];
  for (const item of listed) {
    if (!isRecord(item)) continue;
    const outcome = reduce(item);
    if (outcome.kind === 'refused') return outcome;
    items.push(outcome.object);
  }
  const metadata = { resourceVersion, continue: token };
  return { kind: 'page', body: { metadata, items } };
}

function readLines(text: string, reduce: Reduce): ForeignAnswer {
  const lines: string[] = [];
  for (const line of text.split('\n')) {
    if (line === '') continue;
    const outcome = readEvent(parseJson(line), reduce);
    if (outcome.kind === 'refused') return outcome;
    lines.push(JSON.stringify(outcome.object));
  }
  return { kind: 'events', lines };
}

/** An event that the reflector ignores. */
const NO_EVENT: Reduced = { kind: 'reduced', object: {} };

function readEvent(event: unknown, reduce: Reduce): Reduced | Refused {
  if (!isRecord(event)) return NO_EVENT;
  const { type, object } = event;
  if (!isRecord(object)) return NO_EVENT;
  switch (type) {
    case 'ADDED':
    case 'MODIFIED':
    case 'DELETED': {
      const outcome = reduce(object);
      return outcome.kind === 'refused' ? outcome : asEvent(type, outcome.object);
    }
    case 'BOOKMARK': {
      const { resourceVersion } = metadataOf(object);
      if (!isShort(resourceVersion, MOST_VERSION_LENGTH)) return NO_EVENT;
      return asEvent(type, { metadata: { resourceVersion } });
    }
    case 'ERROR':
      return asEvent(type, typeof object['code'] === 'number' ? { code: object['code'] } : {});
    default:
      return NO_EVENT;
  }
}

function asEvent(type: string, object: RawObject): Reduced {
  return { kind: 'reduced', object: { type, object } };
}

function isShort(value: unknown, most: number): boolean {
  return typeof value === 'string' && value.length <= most;
}
