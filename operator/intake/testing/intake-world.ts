import { HeldUsage } from '../../billing/held-usage/ledger-held-usage.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { silentLogger } from '../../ledger/testing/level-ledger.ts';
import { createStepClock, type StepClock } from '../../ledger/testing/step-clock.ts';
import type { UsageEvent } from '../../model/event.ts';
import { Intake } from '../intake.ts';
import { MortalLedger } from './mortal-ledger.ts';

export const HOUR = 3_600_000;
export const START = Date.parse('2026-11-21T09:10:00Z');

/** One process after the other over the same ledger. Tenant `stranger` is unknown. */
export class IntakeWorld {
  readonly clock: StepClock = createStepClock(START);
  windowMs = HOUR;
  lateForMs = 2 * HOUR;
  mortal: MortalLedger;
  held: HeldUsage;
  intake: Intake;

  constructor(real: Ledger) {
    ({ mortal: this.mortal, held: this.held, intake: this.intake } = this.#process(real));
  }

  /** Ends the process and starts the next one. */
  async restart(real: Ledger): Promise<void> {
    ({ mortal: this.mortal, held: this.held, intake: this.intake } = this.#process(real));
    await this.begin();
  }

  async begin(): Promise<void> {
    await this.held.load();
    await this.intake.load();
  }

  /** Every usage event, held or in the ledger. */
  async events(): Promise<readonly UsageEvent[]> {
    const events: UsageEvent[] = [];
    for await (const { event } of this.mortal.ledger.scan(0, Number.MAX_SAFE_INTEGER)) {
      events.push(event);
    }
    for (const { tenant } of this.held.list()) {
      for await (const { event } of this.held.eventsOf(tenant)) events.push(event);
    }
    return events;
  }

  #process(real: Ledger): {
    readonly mortal: MortalLedger;
    readonly held: HeldUsage;
    readonly intake: Intake;
  } {
    const mortal = new MortalLedger(real);
    const { ledger } = mortal;
    const { clock } = this;
    const held = new HeldUsage({
      ledger,
      clock,
      unknownTenants: () => 'hold',
      isDiscovered: (tenant) => !tenant.startsWith('stranger'),
      wasServed: async () => false,
      isMeasuredHere: () => false,
    });
    const intake = new Intake({
      ledger,
      held,
      clock,
      logger: silentLogger,
      region: 'eu-1',
      unitOf: (metric) => (metric === 'tenant_inference_tokens' ? 'tokens' : undefined),
      windowMs: () => this.windowMs,
      lateForMs: () => this.lateForMs,
    });
    return { mortal, held, intake };
  }
}
