import type { Controllers } from '../controllers/controllers.ts';
import type { Part } from './parts.ts';

/**
 * A part that begins when the custom resources have been looked at. They say who pays, for what and in which
 * windows: until then the settings are those of the environment alone, and what is done by them is wrong. Where
 * custom resources cannot be read the part waits; what it would have done is done later.
 */
export function whenConfigured(controllers: Pick<Controllers, 'ready'>, part: Part): Part {
  return {
    name: part.name,
    run: async (signal) => {
      try {
        await controllers.ready(signal);
      } catch (error) {
        if (signal.aborted) return;
        throw error;
      }
      await part.run(signal);
    },
  };
}
