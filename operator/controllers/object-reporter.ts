import type { Condition } from '../kubernetes/conditions.ts';
import type { EventRecorder } from '../kubernetes/events.ts';
import type { StatusPublisher } from '../kubernetes/status-publisher.ts';
import type { Clock } from '../telemetry/clock.ts';
import {
  type ConditionClaim,
  conditionEvents,
  conditionsOf,
  type SpecStatus,
} from './conditions.ts';
import type { ControlledKind, CustomObject, Report } from './controlled-kind.ts';
import { summaryOf } from './summary.ts';

interface Reconciled {
  readonly generation: number;
  readonly specStatus: SpecStatus;
  /** The last published conditions; undefined before the first. */
  readonly conditions: readonly Condition[] | undefined;
}

/** Period after a start in which an older status is better than "not known yet". */
const SETTLING_MS = 60_000;

/** Reports the objects of one kind: their state as status, and what happened as Events. */
export class ObjectReporter<Spec> {
  readonly #kind: ControlledKind<Spec>;
  readonly #status: StatusPublisher;
  readonly #events: EventRecorder;
  readonly #clock: Clock;
  readonly #startedAt: number;
  /** By uid. */
  readonly #known = new Map<string, Reconciled>();

  constructor(
    kind: ControlledKind<Spec>,
    status: StatusPublisher,
    events: EventRecorder,
    clock: Clock,
  ) {
    this.#kind = kind;
    this.#status = status;
    this.#events = events;
    this.#clock = clock;
    this.#startedAt = clock.monotonic();
  }

  reconciled(object: CustomObject<Spec>, specStatus: SpecStatus): void {
    const { uid, generation } = object;
    const before = this.#known.get(uid);
    const reconciled = { generation, specStatus, conditions: before?.conditions };
    this.#known.set(uid, reconciled);
    this.#recordSpecStatus(object, specStatus, before);
    this.#report(object, reconciled);
  }

  /** Reports the current state of the engine for an object. */
  refresh(object: CustomObject<Spec>): void {
    const reconciled = this.#known.get(object.uid);
    // A newer spec is reconciled soon. Until then the status describes the previous one.
    if (reconciled?.generation === object.generation) this.#report(object, reconciled);
  }

  /** Reports that the cleanup for a deleted object failed. */
  removalFailed(object: CustomObject<Spec>, finalizer: string): void {
    this.#publish(object, { claims: [removalFailing(finalizer)], fields: {} });
  }

  /** Reports that the cleanup for a deleted object is done. */
  removed(object: CustomObject<Spec>, note: string): void {
    this.#record(object, 'Normal', 'Removed', note);
  }

  /** Returns the outcome of the last reconciled spec; undefined before the first. */
  specStatusOf({ uid }: CustomObject<Spec>): SpecStatus | undefined {
    return this.#known.get(uid)?.specStatus;
  }

  forget({ uid }: CustomObject<Spec>): void {
    this.#known.delete(uid);
    this.#status.forget(uid);
  }

  /** Records an Event if another spec was applied or refused. */
  #recordSpecStatus(
    object: CustomObject<Spec>,
    specStatus: SpecStatus,
    before: Reconciled | undefined,
  ): void {
    const was = before?.specStatus;
    if (specStatus.kind === 'invalid') {
      if (was?.kind === 'invalid' && was.message === specStatus.message) return;
      this.#record(object, 'Warning', specStatus.reason, specStatus.message);
      return;
    }
    const lastGeneration = before?.generation ?? object.observedGeneration;
    const isNews = lastGeneration !== object.generation || was?.kind === 'invalid';
    if (specStatus.kind === 'accepted' && isNews) {
      this.#record(object, 'Normal', 'Configured', 'The settings are in force');
    }
  }

  #record(
    { name, uid }: CustomObject<Spec>,
    type: 'Normal' | 'Warning',
    reason: string,
    note: string,
  ): void {
    const { group, version } = this.#kind.resource;
    const regarding = { apiVersion: `${group}/${version}`, kind: this.#kind.kind, name, uid };
    this.#events.record({ regarding, type, reason, action: 'Reconcile', note });
  }

  /** Publishes the status. The old one stays until the engine has evaluated the object. */
  #report(object: CustomObject<Spec>, { specStatus, conditions }: Reconciled): void {
    const report = this.#kind.report(object, specStatus);
    const starting = this.#clock.monotonic() - this.#startedAt < SETTLING_MS;
    const reported = object.observedGeneration === object.generation;
    if (!report.settled && starting && reported && conditions === undefined) return;
    this.#publish(object, report);
  }

  #publish(object: CustomObject<Spec>, { claims, fields }: Omit<Report, 'settled'>): void {
    const { name, uid, generation } = object;
    const { resource, kind, promptFields } = this.#kind;
    const status = this.#status;
    const clock = this.#clock;
    const reconciled = this.#known.get(uid);
    const previous = reconciled?.conditions ?? object.conditions;
    const conditions = conditionsOf(claims, previous, generation, clock.now());
    for (const { type, reason, message } of conditionEvents(previous, conditions)) {
      this.#record(object, type, reason, message);
    }
    if (reconciled !== undefined) this.#known.set(uid, { ...reconciled, conditions });
    const target = { resource, kind, name, uid, promptFields };
    const summary = summaryOf(claims);
    status.publish(target, { ...fields, summary, conditions, observedGeneration: generation });
  }
}

function removalFailing(finalizer: string): ConditionClaim {
  const message = `The cleanup for this object failed, and is retried; removing the finalizer ${finalizer} by hand deletes the object without the cleanup`;
  return { type: 'Ready', status: 'False', reason: 'RemovalFailing', message };
}
