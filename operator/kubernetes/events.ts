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

const CONTROLLER = 'meterfeed.io/operator';
const REPEAT_MS = 300_000;
const REMEMBERED = 1_024;
/** More than this at once is a storm that nobody reads. */
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
    /** Which process reports: the pod's name. */
    readonly instance: string;
  }) {
    this.#connection = options.connection;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#instance = options.instance.slice(0, 128);
  }

  /** Sends in the background; the same event within five minutes is not sent again. */
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
   * Resolves with whether the API server has it: under one id an object has one event, however often it is sent, as
   * long as the API server keeps it. The id is of lower-case letters and digits.
   */
  recordOnce(event: KubernetesEvent, id: string): Promise<boolean> {
    return this.#send(event, `${event.regarding.name.slice(0, 200)}.${id}`, this.#clock.now());
  }

  /** Resolves when everything recorded so far has been sent or given up. */
  async settled(): Promise<void> {
    await this.#sending;
  }

  /** True when it was recorded recently; otherwise remembers it. */
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

  /** Unique by the microsecond; the API server does not make names for events. */
  #nameOf(event: KubernetesEvent, at: number): string {
    this.#sequence = (this.#sequence + 1) % 1_000;
    return `${event.regarding.name.slice(0, 200)}.${(at * 1_000 + this.#sequence).toString(16)}`;
  }

  async #send(event: KubernetesEvent, name: string, at: number): Promise<boolean> {
    const { regarding, type, reason, action, note } = event;
    // Events about cluster-scoped objects live in "default": the API server accepts no other.
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
