import type { Window } from '../model/window.ts';
import type { AppendEnd } from './appender.ts';
import { type Collector, createCollector, type CollectorOptions } from './collector.ts';
import type { Gap, UsageFailure } from './gaps.ts';
import type { LiveView } from './live-usage.ts';

/** What a process goes on from when it begins to close windows. */
export type LeftBehind = Pick<CollectorOptions, 'restored' | 'restoredTenants'>;

export interface LedCollectorOptions extends Omit<CollectorOptions, keyof LeftBehind> {
  /** What is known of the gaps that another process has, while that one closes the windows. */
  readonly othersGaps: () => readonly Gap[];
}

/** The windows of a process that closes them from when it is told to. */
export interface LedCollector extends Collector {
  /** To be called once, before {@link Collector.run}. */
  lead(left: LeftBehind): void;
  /** Usage of pods in namespaces has been sampled, or could not be. */
  sampled(namespaces: ReadonlySet<string>): void;
}

/** While nobody closes windows here. */
const NOTHING_KNOWN: LiveView = {
  pods: () => undefined,
  others: () => undefined,
  othersMark: () => '',
  unseen: () => new Map(),
};

export function createLedCollector(options: LedCollectorOptions): LedCollector {
  return new CollectorToCome(options);
}

class CollectorToCome implements LedCollector {
  readonly #options: LedCollectorOptions;
  readonly #listeners = new Set<(namespaces: ReadonlySet<string>) => void>();
  #led: Collector | undefined;

  constructor(options: LedCollectorOptions) {
    this.#options = options;
  }

  lead(left: LeftBehind): void {
    this.#led = createCollector({ ...this.#options, ...left });
  }

  run(signal: AbortSignal): Promise<AppendEnd> {
    if (this.#led === undefined) throw new Error('windows: nobody has told where to go on');
    return this.#led.run(signal);
  }

  get lastWindow(): Window | undefined {
    if (this.#led !== undefined) return this.#led.lastWindow;
    const { lastWindowEnd: end } = this.#options.ledger.stats();
    return end === undefined ? undefined : { start: end - this.windowMs, end };
  }

  get windowMs(): number {
    return this.#led?.windowMs ?? this.#options.settings().metering.windowMs;
  }

  get metricsFailure(): UsageFailure | undefined {
    return this.#led?.metricsFailure ?? this.#options.usage?.failure;
  }

  readonly gaps: Collector['gaps'] = () => this.#led?.gaps() ?? this.#options.othersGaps();

  readonly pastGaps: Collector['pastGaps'] = () => this.#led?.pastGaps() ?? [];

  readonly reports: Collector['reports'] = () => this.#led?.reports() ?? Iterator.from([]);

  readonly lastReport: Collector['lastReport'] = (scope) => this.#led?.lastReport(scope);

  readonly heldTenants: Collector['heldTenants'] = () => this.#led?.heldTenants() ?? [];

  get live(): LiveView {
    return this.#led?.live ?? NOTHING_KNOWN;
  }

  readonly onSampled: Collector['onSampled'] = (listener) => {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  };

  sampled(namespaces: ReadonlySet<string>): void {
    for (const listener of this.#listeners) listener(namespaces);
  }

  readonly closedUntil: Collector['closedUntil'] = () => this.#led?.closedUntil() ?? new Map();

  readonly closedHead: Collector['closedHead'] = () => this.#led?.closedHead();
}
