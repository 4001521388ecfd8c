import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Connection } from './connection.ts';
import { describeFailure } from './outcome.ts';
import { microTime, resourcePath } from './resource.ts';

/** A Kubernetes Event about an object, shown by `kubectl describe`. Never carries a secret. */
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
  /** One sentence; repeated events have the same note. */
  readonly note: string;
}

const CONTROLLER = 'meterfeed.io/operator';
const REPEAT_MS = 300_000;
const REMEMBERED = 1_024;
/** Limit of unsent events; further ones are dropped, since nobody reads so many. */
const MAX_UNSENT = 100;
const MAX_NOTE_BYTES = 1_024;

/** Sends events to the API server. */
export class EventRecorder {
  readonly #connection: Pick<Connection, 'request'>;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #instance: string;
  /** When an event was last recorded, least recent first. */
  readonly #recorded = new Map<string, number>();
  #unsent = 0;
  #sequence = 0;
  #sending: Promise<unknown> = Promise.resolve();

  constructor(options: {
    readonly connection: Pick<Connection, 'request'>;
    readonly clock: Clock;
    readonly logger: Logger;
    /** The pod's name. */
    readonly instance: string;
  }) {
    this.#connection = options.connection;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#instance = options.instance.slice(0, 128);
  }

  /** Sends in the background. Skips an event that was sent within the last five minutes. */
  record(event: KubernetesEvent): void {
    if (this.#isRepeated(event) || this.#unsent >= MAX_UNSENT) return;
    this.#unsent += 1;
    const at = this.#clock.now();
    this.#sending = this.#sending
      .then(() => this.#send(event, this.#nameOf(event, at), at))
      .finally(() => {
        this.#unsent -= 1;
      });
  }

  /**
   * Sends an event under a fixed name, so that an object has one event for each `id`, however often
   * it is sent. Resolves with true when the API server has it. `id`: lower-case letters and digits.
   */
  recordOnce(event: KubernetesEvent, id: string): Promise<boolean> {
    return this.#send(event, `${event.regarding.name.slice(0, 200)}.${id}`, this.#clock.now());
  }

  /** Resolves when each event recorded so far was sent or has failed. */
  async settled(): Promise<void> {
    await this.#sending;
  }

  /** True when the event was recorded recently; otherwise records its time. */
  #isRepeated(event: KubernetesEvent): boolean {
    const recorded = this.#recorded;
    const now = this.#clock.monotonic();
    const key = JSON.stringify([event.regarding.uid, event.reason, event.note]);
    const before = recorded.get(key);
    if (before !== undefined && now - before < REPEAT_MS) return true;
    recorded.delete(key);
    recorded.set(key, now);
    const [oldest] = recorded.keys();
    if (recorded.size > REMEMBERED && oldest !== undefined) recorded.delete(oldest);
    return false;
  }

  /** A unique name from the time in microseconds; the API server generates no names for events. */
  #nameOf(event: KubernetesEvent, at: number): string {
    this.#sequence = (this.#sequence + 1) % 1_000;
    return `${event.regarding.name.slice(0, 200)}.${(at * 1_000 + this.#sequence).toString(16)}`;
  }

  async #send(event: KubernetesEvent, name: string, at: number): Promise<boolean> {
    const { regarding, type, reason, action, note } = event;
    // The API server accepts events about cluster-scoped objects in "default" only.
    const namespace = regarding.namespace ?? 'default';
    const resource = { group: 'events.k8s.io', version: 'v1', plural: 'events', namespace };
    const outcome = await this.#connection.request(resourcePath(resource), {
      method: 'POST',
      body: {
        apiVersion: 'events.k8s.io/v1',
        kind: 'Event',
        metadata: { namespace, name },
        eventTime: microTime(at),
        reportingController: CONTROLLER,
        reportingInstance: this.#instance,
        type,
        reason,
        action,
        note: truncate(note),
        regarding,
      },
    });
    const isThere = outcome.kind === 'status' && outcome.code === 409;
    if (outcome.kind === 'ok' || isThere) return true;
    this.#logger.debug(`[controller] cannot record event ${reason}: ${describeFailure(outcome)}`);
    return false;
  }
}

function truncate(note: string): string {
  const bytes = Buffer.from(note);
  if (bytes.length <= MAX_NOTE_BYTES) return note;
  const cut = new TextDecoder().decode(bytes.subarray(0, MAX_NOTE_BYTES - 3));
  return `${cut.replace(/\uFFFD+$/, '')}…`;
}
