import type { LeaderElection } from '../kubernetes/lease.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { type Part, runParts } from './parts.ts';

/** Runs the parts while this process leads. A lost lease ends it: somebody else may be metering by now. */
export function leaderPart(
  election: LeaderElection,
  parts: readonly Part[],
  tools: { readonly clock: Clock; readonly logger: Logger },
): Part {
  return {
    name: 'leader',
    run: async (signal) => {
      const end = await election.run(signal, async (leading) => {
        const ended = await runParts(parts, leading, tools);
        if (ended.kind === 'failed') throw new Error(ended.reason);
      });
      if (end.kind === 'lost') throw new Error(`the lease is lost: ${end.reason}`);
    },
  };
}
