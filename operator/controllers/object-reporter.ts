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

/** The last spec of an object that was looked at. */
interface Reconciled {
  readonly generation: number;
  readonly specStatus: SpecStatus;
  /** As last published; undefined before that. */
  readonly conditions: readonly Condition[] | undefined;
}

/** How long after a start an older status is better than "not known yet". */
const SETTLING_MS = 60_000;

/** Reports what becomes of the objects of one kind: status for what is, events for what happened. */
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

  /** The newest spec has been looked at. */
  reconciled(object: CustomObject<Spec>, specStatus: SpecStatus): void {
    const { uid, generation } = object;
    const before = this.#known.get(uid);
    const reconciled = { generation, specStatus, conditions: before?.conditions };
    this.#known.set(uid, reconciled);
    this.#recordSpecStatus(object, specStatus, before);
    this.#report(object, reconciled);
  }

  /** Time has passed; the engine may have moved on. */
  refresh(object: CustomObject<Spec>): void {
    const reconciled = this.#known.get(object.uid);
    // A newer spec is about to be looked at; until then the status speaks of the one before.
    if (reconciled?.generation === object.generation) this.#report(object, reconciled);
  }

  /** The object is being deleted, and what it stands for cannot be put away. */
  removalFailed(object: CustomObject<Spec>, finalizer: string): void {
    this.#publish(object, { claims: [removalFailing(finalizer)], fields: {} });
  }

  /** What the object stands for is put away. */
  removed(object: CustomObject<Spec>, note: string): void {
    this.#record(object, 'Normal', 'Removed', note);
  }

  /** What became of the newest spec that was looked at; undefined before any was. */
  specStatusOf({ uid }: CustomObject<Spec>): SpecStatus | undefined {
    return this.#known.get(uid)?.specStatus;
  }

  /** The object is gone. */
  forget({ uid }: CustomObject<Spec>): void {
    this.#known.delete(uid);
    this.#status.forget(uid);
  }

  /** An event only where something happened: another spec was taken up, or could not be. */
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
    const lookedAt = before?.generation ?? object.observedGeneration;
    const taken = lookedAt !== object.generation || was?.kind === 'invalid';
    if (specStatus.kind === 'accepted' && taken) {
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

  /** A restart changes no condition: until the engine has looked, the status from before it stays. */
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
  const message = `What the object stands for could not be put away, and is tried again; removing the finalizer ${finalizer} by hand lets the object go without it`;
  return { type: 'Ready', status: 'False', reason: 'RemovalFailing', message };
}
