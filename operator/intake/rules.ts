import type { CloudEventRule } from '../model/cloud-event-rule.ts';
import type { IngestSettings } from '../settings/settings.ts';
import { metricsOf } from './mapping.ts';
import { tenantsBySubject } from './subjects.ts';

/** The settings of `MeteringPolicy.spec.ingest` that reading needs. */
export type IntakeRules = Pick<IngestSettings, 'cloudEvents' | 'subjects'>;

/** Settings that do not change are the same object, so each is compiled once. */
const compiled = new WeakMap<IntakeRules, CompiledRules>();

/** The rules by which events of gateways become usage of tenants. */
export class CompiledRules {
  /** By the type of an event. */
  readonly byType: ReadonlyMap<string, CloudEventRule>;
  /** The metrics that the rules fill. */
  readonly metrics: ReadonlySet<string>;
  /** The tenant of a caller whose prefix is cut. */
  readonly tenantOf: (caller: string) => string;

  constructor({ cloudEvents, subjects }: IntakeRules) {
    this.byType = new Map(cloudEvents.map((rule) => [rule.type, rule]));
    this.metrics = new Set(cloudEvents.flatMap(metricsOf));
    this.tenantOf = tenantsBySubject(subjects);
  }

  static of(rules: IntakeRules): CompiledRules {
    const made = compiled.get(rules) ?? new CompiledRules(rules);
    compiled.set(rules, made);
    return made;
  }

  /** The tenant of a caller in the events that fill a metric. Several rules may cut prefixes. */
  tenantFor(subject: string, metric: string): string {
    const rule = [...this.byType.values()].find(
      (one) => callerOf(subject, one) !== subject && metricsOf(one).includes(metric),
    );
    return this.tenantOf(rule === undefined ? subject : callerOf(subject, rule));
  }
}

/** A subject without the prefix that a rule cuts. */
export function callerOf(subject: string, { subjectPrefix: prefix = '' }: CloudEventRule): string {
  return subject.startsWith(prefix) ? subject.slice(prefix.length) : subject;
}
