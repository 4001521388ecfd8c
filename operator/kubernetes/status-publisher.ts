import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Condition } from './conditions.ts';
import type { Connection } from './connection.ts';
import type { WorkQueueMetrics } from './metrics.ts';
import { describeFailure } from './outcome.ts';
import { identify, resourcePath } from './resource.ts';
import type { ApiResource } from './source.ts';
import { type WorkOutcome, WorkQueue } from './work-queue.ts';

/** The object whose status is written. */
export interface StatusTarget {
  readonly resource: ApiResource;
  readonly kind: string;
  readonly name: string;
  /** Distinguishes the object from a later one with the same name. */
  readonly uid: string;
  /** Status fields whose changes are written within ten seconds instead of a minute. */
  readonly promptFields?: readonly string[];
}

/** A status with every field that the operator owns. */
interface PublishedStatus {
  readonly observedGeneration?: number;
  readonly conditions?: readonly Condition[];
  readonly [field: string]: unknown;
}

interface Entry {
  readonly target: StatusTarget;
  wanted: PublishedStatus;
  /** The last written status, without transition times; undefined before the first write. */
  written?: {
    readonly full: string;
    readonly urgent: string;
    readonly prompt: string;
    readonly at: number;
  };
}

const INTERVAL_MS = 60_000;
const PROMPT_INTERVAL_MS = 10_000;

/**
 * Writes statuses at a limited rate, and always the latest state:
 * 1. Conditions or the observed generation changed: at once.
 * 2. A prompt field of the target changed: at most every ten seconds.
 * 3. Only other fields changed: at most once a minute for each object.
 * 4. Nothing changed: no write.
 */
export class StatusPublisher {
  readonly #connection: Pick<Connection, 'request'>;
  readonly #clock: Clock;
  readonly #intervalMs: number;
  readonly #queue: WorkQueue;
  /** By the object's path, so that an object created again under the name replaces it. */
  readonly #entries = new Map<string, Entry>();

  constructor(options: {
    readonly connection: Pick<Connection, 'request'>;
    readonly clock: Clock;
    readonly logger: Logger;
    readonly metrics?: WorkQueueMetrics;
    /** Milliseconds between writes of ordinary fields, per object. */
    readonly intervalMs?: number;
  }) {
    const { connection, clock, logger, metrics, intervalMs = INTERVAL_MS } = options;
    this.#intervalMs = intervalMs;
    this.#connection = connection;
    this.#clock = clock;
    this.#queue = new WorkQueue({
      name: 'status',
      process: (path, signal) => this.#write(path, signal),
      concurrency: 4,
      clock,
      logger,
      metrics,
    });
  }

  publish(target: StatusTarget, status: PublishedStatus): void {
    const path = resourcePath(target.resource, target.name);
    const before = this.#entries.get(path);
    const entry = before?.target.uid === target.uid ? before : { target, wanted: status };
    entry.wanted = status;
    this.#entries.set(path, entry);
    const wait = this.#due(entry);
    if (wait !== undefined) this.#queue.addAfter(path, wait);
  }

  /** Forgets a deleted object and its pending write. */
  forget(uid: string): void {
    for (const [path, { target }] of this.#entries) {
      if (target.uid === uid) this.#entries.delete(path);
    }
  }

  run(signal: AbortSignal): Promise<void> {
    return this.#queue.run(signal);
  }

  /** Milliseconds until the entry may be written; undefined when there is nothing to write. */
  #due({ written, wanted, target }: Entry): number | undefined {
    if (written === undefined) return 0;
    if (written.full === comparable(wanted)) return undefined;
    if (written.urgent !== comparable(urgentFields(wanted))) return 0;
    const isPrompt = written.prompt !== comparable(promptValues(target, wanted));
    const interval = isPrompt ? Math.min(PROMPT_INTERVAL_MS, this.#intervalMs) : this.#intervalMs;
    return Math.max(0, written.at + interval - this.#clock.monotonic());
  }

  async #write(path: string, signal: AbortSignal): Promise<WorkOutcome> {
    const entry = this.#entries.get(path);
    const wait = entry && this.#due(entry);
    if (entry === undefined || wait === undefined) return { kind: 'done' };
    if (wait > 0) return { kind: 'again', afterMs: wait };
    const { wanted, target } = entry;
    const outcome = await applyStatus(this.#connection, target, wanted, signal);
    if (outcome.kind === 'failed') {
      return { kind: 'failed', reason: `cannot write status: ${outcome.reason}` };
    }
    if (outcome.kind === 'applied') {
      entry.written = {
        full: comparable(wanted),
        urgent: comparable(urgentFields(wanted)),
        prompt: comparable(promptValues(target, wanted)),
        at: this.#clock.monotonic(),
      };
    } else if (this.#entries.get(path) === entry) this.#entries.delete(path);
    return { kind: 'done' };
  }
}

function urgentFields({ observedGeneration, conditions }: PublishedStatus): object {
  return { observedGeneration, conditions };
}

function promptValues({ promptFields = [] }: StatusTarget, status: PublishedStatus): object {
  return promptFields.map((field) => status[field]);
}

/** JSON with sorted keys, without the times at which conditions changed. */
function comparable(value: object): string {
  return JSON.stringify(value, (key, entry: unknown) => {
    if (key === 'lastTransitionTime') return undefined;
    if (typeof entry !== 'object' || entry === null || Array.isArray(entry)) return entry;
    return Object.fromEntries(
      Object.entries(entry).toSorted(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)),
    );
  });
}

export type ApplyOutcome =
  | { readonly kind: 'applied' }
  /** The object with this uid does not exist. */
  | { readonly kind: 'gone' }
  | { readonly kind: 'failed'; readonly reason: string };

/** Field manager of the operator's fields. */
const FIELD_MANAGER = 'meterfeed';

/** The API server's error for a field that an older CustomResourceDefinition lacks. */
const UNDECLARED = /\.status\.(\w+): field not declared in schema/;

/**
 * Writes the complete status by server-side apply. Fields that the operator wrote before and now
 * leaves out are removed; other managers' fields stay. A field that the CustomResourceDefinition
 * lacks is left out, so that a new operator with old definitions still reports the others.
 */
export async function applyStatus(
  connection: Pick<Connection, 'request'>,
  target: StatusTarget,
  status: Readonly<Record<string, unknown>>,
  signal?: AbortSignal,
): Promise<ApplyOutcome> {
  const { resource, kind, name, uid } = target;
  const { group, version } = resource;
  const outcome = await connection.request(resourcePath(resource, name, 'status'), {
    method: 'PATCH',
    query: { fieldManager: FIELD_MANAGER, force: true },
    contentType: 'application/apply-patch+yaml',
    body: {
      apiVersion: group === '' ? version : `${group}/${version}`,
      kind,
      metadata: { name, namespace: resource.namespace },
      status,
    },
    signal,
  });
  if (outcome.kind === 'ok') {
    // The API server does not check uids on a status write. A successor's own status follows.
    return { kind: identify(outcome.body)?.uid === uid ? 'applied' : 'gone' };
  }
  if (outcome.kind === 'status' && outcome.code === 404) return { kind: 'gone' };
  const reason = describeFailure(outcome);
  const [, undeclared = ''] = UNDECLARED.exec(reason) ?? [];
  if (!(undeclared in status)) return { kind: 'failed', reason };
  const { [undeclared]: _, ...declared } = status;
  return applyStatus(connection, target, declared, signal);
}
