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
  /** Tells the object from one that was created again under its name. */
  readonly uid: string;
  /** Fields of its status whose change is worth a write before the minute is over. */
  readonly promptFields?: readonly string[];
}

/** A status; every field that the operator owns, each time. */
interface PublishedStatus {
  readonly observedGeneration?: number;
  readonly conditions?: readonly Condition[];
  readonly [field: string]: unknown;
}

interface Entry {
  readonly target: StatusTarget;
  wanted: PublishedStatus;
  /** What was last written, without transition times; undefined before the first write. */
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
 * Writes statuses no oftener than is useful: at once when conditions or the observed
 * generation change, at most every ten seconds when one of the target's prompt fields does, at most once
 * a minute per object when only other numbers move, and not at all when nothing did. The last state is
 * always written.
 */
export class StatusPublisher {
  readonly #connection: Pick<Connection, 'request'>;
  readonly #clock: Clock;
  readonly #intervalMs: number;
  readonly #queue: WorkQueue;
  /** By the path of the object, so that a successor under the same name takes over its place. */
  readonly #entries = new Map<string, Entry>();

  constructor(options: {
    readonly connection: Pick<Connection, 'request'>;
    readonly clock: Clock;
    readonly logger: Logger;
    readonly metrics?: WorkQueueMetrics;
    /** Between writes of moving numbers, per object. */
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

  /** The object is gone: forgets it, and anything still to be written. */
  forget(uid: string): void {
    for (const [path, { target }] of this.#entries) {
      if (target.uid === uid) this.#entries.delete(path);
    }
  }

  /** Writes until the signal is aborted. */
  run(signal: AbortSignal): Promise<void> {
    return this.#queue.run(signal);
  }

  /** Milliseconds until the entry may be written; undefined when there is nothing to write. */
  #due({ written, wanted, target }: Entry): number | undefined {
    if (written === undefined) return 0;
    if (written.full === comparable(wanted)) return undefined;
    if (written.urgent !== comparable(urgentPart(wanted))) return 0;
    const isPrompt = written.prompt !== comparable(promptPart(target, wanted));
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
        urgent: comparable(urgentPart(wanted)),
        prompt: comparable(promptPart(target, wanted)),
        at: this.#clock.monotonic(),
      };
    } else if (this.#entries.get(path) === entry) this.#entries.delete(path);
    return { kind: 'done' };
  }
}

function urgentPart({ observedGeneration, conditions }: PublishedStatus): object {
  return { observedGeneration, conditions };
}

function promptPart({ promptFields = [] }: StatusTarget, status: PublishedStatus): object {
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
  /** The object, or this incarnation of it, is not there any more. */
  | { readonly kind: 'gone' }
  | { readonly kind: 'failed'; readonly reason: string };

/** Owner of the fields that the operator writes. */
const FIELD_MANAGER = 'meterfeed';

/** How the API server refuses a field that an older CustomResourceDefinition does not have. */
const UNDECLARED = /\.status\.(\w+): field not declared in schema/;

/**
 * Writes the complete status by server-side apply: fields that the operator wrote before and left
 * out now are removed, fields of others stay. A field that the CustomResourceDefinition does not have is
 * left out, so that an operator that was upgraded before its definitions still reports the others.
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
    // The API server does not compare uids on a status; the successor's own status will follow.
    return { kind: identify(outcome.body)?.uid === uid ? 'applied' : 'gone' };
  }
  if (outcome.kind === 'status' && outcome.code === 404) return { kind: 'gone' };
  const reason = describeFailure(outcome);
  const [, undeclared = ''] = UNDECLARED.exec(reason) ?? [];
  if (!(undeclared in status)) return { kind: 'failed', reason };
  const { [undeclared]: _, ...declared } = status;
  return applyStatus(connection, target, declared, signal);
}
