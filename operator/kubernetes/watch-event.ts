import { identify, metadataOf, type ObjectIdentity } from './object-metadata.ts';
import { isRawObject } from './outcome.ts';
import type { RawObject } from './source.ts';

/** ADDED and MODIFIED are one: which of them it is depends on what we hold. */
export interface ObjectEvent {
  readonly kind: 'object';
  readonly deleted: boolean;
  readonly object: RawObject;
  readonly identity: ObjectIdentity;
}

/** One line of a watch stream. */
export type WatchEvent =
  | ObjectEvent
  | { readonly kind: 'bookmark'; readonly resourceVersion: string }
  /** The server's last word on this stream. */
  | { readonly kind: 'error'; readonly code: number }
  /** Not an event; what it should have been is lost. */
  | { readonly kind: 'garbage' };

const GARBAGE: WatchEvent = { kind: 'garbage' };

export function parseWatchEvent(line: string): WatchEvent {
  const event = parseJson(line);
  if (!isRawObject(event)) return GARBAGE;
  const { type, object } = event;
  if (!isRawObject(object)) return GARBAGE;
  switch (type) {
    case 'ADDED':
    case 'MODIFIED':
    case 'DELETED': {
      const identity = identify(object);
      if (identity === undefined) return GARBAGE;
      return { kind: 'object', deleted: type === 'DELETED', object, identity };
    }
    case 'BOOKMARK': {
      const { resourceVersion } = metadataOf(object);
      if (typeof resourceVersion !== 'string' || resourceVersion === '') return GARBAGE;
      return { kind: 'bookmark', resourceVersion };
    }
    case 'ERROR': {
      const { code } = object;
      return { kind: 'error', code: typeof code === 'number' ? code : 0 };
    }
    default:
      return GARBAGE;
  }
}

function parseJson(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
