import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Connection } from './connection.ts';
import { describeFailure } from './outcome.ts';
import { microTime, resourcePath } from './resource.ts';

/** Something that happened to an object, for `kubectl describe`. Never carries a secret. */
export interface KubernetesEvent {
  readonly regarding: {
    readonly apiVersion: string;
    readonly kind: string;
    readonly name: string;
    readonly uid: string;
    /** Absent for cluster-scoped objects. */
    readonly namespace?: string;
  };
  readonly type: 'Normal' | 'Warning';
  /** CamelCase: why it happened. */
  readonly reason: string;
  /** CamelCase: what the operator was doing. */
  readonly action: string;
  /** One sentence; the same for the same thing. */
  readonly note: string;
}

export interface EventRecorder {
  /** Sends in the background; the same event within five minutes is not sent again. */
  record(event: KubernetesEvent): void;
  /**
   * Resolves with whether the API server has it: under one id an object has one event, however often it is sent, as
   * long as the API server keeps it. The id is of lower-case letters and digits.
   */
  recordOnce(event: KubernetesEvent, id: string): Promise<boolean>;
  /** Resolves when everything recorded so far has been sent or given up. */
  settled(): Promise<void>;
}

export interface EventRecorderOptions {
  readonly connection: Pick<Connection, 'request'>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Which process reports: the pod's name. */
  readonly instance: string;
}

const CONTROLLER = 'meterfeed.io/operator';
const REPEAT_MS = 300_000;
const REMEMBERED = 1_024;
/** More than this at once is a storm that nobody reads. */
const MAX_UNSENT = 100;
const MAX_NOTE_BYTES = 1_024;

export function createEventRecorder(options: EventRecorderOptions): EventRecorder {
  const { connection, clock, logger } = options;
  /** When an event was last recorded, least recent first. */
  const recorded = new Map<string, number>();
  let unsent = 0;
  let sequence = 0;
  let sending: Promise<void> = Promise.resolve();

  /** True when it was recorded recently; otherwise remembers it. */
  function isRepeated(event: KubernetesEvent): boolean {
    const key = JSON.stringify([event.regarding.uid, event.reason, event.note]);
    const before = recorded.get(key);
    if (before !== undefined && clock.monotonic() - before < REPEAT_MS) return true;
    recorded.delete(key);
    recorded.set(key, clock.monotonic());
    const [oldest] = recorded.keys();
    if (recorded.size > REMEMBERED && oldest !== undefined) recorded.delete(oldest);
    return false;
  }

  /** Unique by the microsecond; the API server does not make names for events. */
  function nameOf(event: KubernetesEvent, at: number): string {
    sequence = (sequence + 1) % 1_000;
    return `${event.regarding.name.slice(0, 200)}.${(at * 1_000 + sequence).toString(16)}`;
  }

  async function send(event: KubernetesEvent, name: string, at: number): Promise<boolean> {
    // Events about cluster-scoped objects live in "default": the API server accepts no other.
    const namespace = event.regarding.namespace ?? 'default';
    const path = resourcePath({
      group: 'events.k8s.io',
      version: 'v1',
      plural: 'events',
      namespace,
    });
    const outcome = await connection.request(path, {
      method: 'POST',
      body: {
        apiVersion: 'events.k8s.io/v1',
        kind: 'Event',
        metadata: { namespace, name },
        eventTime: microTime(at),
        reportingController: CONTROLLER,
        reportingInstance: options.instance.slice(0, 128),
        type: event.type,
        reason: event.reason,
        action: event.action,
        note: truncate(event.note),
        regarding: event.regarding,
      },
    });
    if (outcome.kind === 'ok') return true;
    const isThere = outcome.kind === 'status' && outcome.code === 409;
    if (isThere) return true;
    logger.debug(`[controller] cannot record event ${event.reason}: ${describeFailure(outcome)}`);
    return false;
  }

  return {
    record: (event) => {
      if (isRepeated(event) || unsent >= MAX_UNSENT) return;
      unsent += 1;
      const at = clock.now();
      sending = sending
        .then(() => send(event, nameOf(event, at), at))
        .finally(() => {
          unsent -= 1;
        })
        .then(() => undefined);
    },
    recordOnce: (event, id) =>
      send(event, `${event.regarding.name.slice(0, 200)}.${id}`, clock.now()),
    settled: () => sending,
  };
}

function truncate(note: string): string {
  const bytes = Buffer.from(note);
  if (bytes.length <= MAX_NOTE_BYTES) return note;
  const cut = new TextDecoder().decode(bytes.subarray(0, MAX_NOTE_BYTES - 3));
  return `${cut.replace(/\uFFFD+$/, '')}…`;
}
