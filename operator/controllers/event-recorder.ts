import { createHash } from 'node:crypto';
import type { Connection } from '../kubernetes/connection.ts';
import { describeFailure } from '../kubernetes/outcome.ts';
import { resourcePath } from '../kubernetes/paths.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';

/** Tells people about something that happened to an object, as `kubectl describe` shows it. */
export interface EventRecorder {
  /** Resolves when the event is written or given up; never rejects. */
  record(event: ObjectEvent): Promise<void>;
}

export interface ObjectEvent {
  readonly type: 'Normal' | 'Warning';
  readonly regarding: EventSubject;
  /** CamelCase, for machines. */
  readonly reason: string;
  /** What was done, for machines: `Configure`. */
  readonly action: string;
  /** For people; never a secret. */
  readonly note: string;
}

export interface EventSubject {
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
}

export interface EventRecorderOptions {
  readonly connection: Connection;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The pod's name, or whatever tells this process from others. */
  readonly instance: string;
}

/** The API server keeps events about cluster-scoped objects in this namespace only. */
const NAMESPACE = 'default';
const REPEAT_AFTER_MS = 5 * 60_000;
const MOST_REMEMBERED = 1_000;
const LONGEST_NOTE = 1_000;

/** Writes events through `events.k8s.io/v1`; the same one about the same object at most once in five minutes. */
export function createEventRecorder(options: EventRecorderOptions): EventRecorder {
  const { connection, clock, logger, instance } = options;
  /** When each event was last written, oldest first. */
  const written = new Map<string, number>();

  function isRepeat(key: string, now: number): boolean {
    const at = written.get(key);
    if (at !== undefined && now - at < REPEAT_AFTER_MS) return true;
    written.delete(key);
    written.set(key, now);
    const [oldest] = written.keys();
    if (written.size > MOST_REMEMBERED && oldest !== undefined) written.delete(oldest);
    return false;
  }

  return {
    async record(event) {
      const { type, regarding, reason, action } = event;
      const note = event.note.slice(0, LONGEST_NOTE);
      const key = [regarding.uid, type, reason, note].join('\0');
      if (isRepeat(key, clock.monotonic())) return;
      const now = clock.now();
      const suffix = createHash('sha256').update(`${key}\0${now}`).digest('hex').slice(0, 16);
      const path = resourcePath({
        group: 'events.k8s.io',
        version: 'v1',
        plural: 'events',
        namespace: NAMESPACE,
      });
      const outcome = await connection.request(path, {
        method: 'POST',
        body: {
          apiVersion: 'events.k8s.io/v1',
          kind: 'Event',
          metadata: { name: `${regarding.name}.${suffix}`, namespace: NAMESPACE },
          // Microseconds, as the type demands.
          eventTime: new Date(now).toISOString().replace('Z', '000Z'),
          reportingController: 'meterfeed.io/operator',
          reportingInstance: instance,
          regarding: { apiVersion: 'meterfeed.io/v1alpha1', ...regarding },
          type,
          reason,
          action,
          note,
        },
      });
      if (outcome.kind === 'ok') return;
      logger.debug(`[controller] event ${reason} not written: ${describeFailure(outcome)}`);
    },
  };
}
