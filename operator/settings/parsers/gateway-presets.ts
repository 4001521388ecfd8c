/** The type that a usage event of Envoy AI Gateway gets. It is no CloudEvent and has none. */
export const ENVOY_EVENT_TYPE = 'envoy.ai_gateway.usage';

const MODEL = { model: '$.model' };
const PROVIDED_MODEL = { ...MODEL, provider: '$.provider' };

/**
 * The rules of known gateways, as `MeteringPolicy.spec.ingest.cloudEvents` has them
 * (docs/how-to/ai-gateways.md#presets has the source of each).
 */
export const GATEWAY_PRESETS = {
  litellm: {
    type: 'litellm_tokens',
    ignoreSubjects: ['litellm:/health/services'],
    tokens: { input: '$.prompt_tokens', output: '$.completion_tokens', dimensions: MODEL },
  },
  praxis: {
    type: 'inference.tokens.used',
    tokens: {
      input: '$.prompt_tokens',
      output: '$.completion_tokens',
      cacheRead: '$.cached_input_tokens',
      cacheWrite: '$.cache_creation_tokens',
      reasoning: '$.reasoning_tokens',
      inputIncludesCached: true,
      outputIncludesReasoning: true,
      dimensions: PROVIDED_MODEL,
    },
  },
  kong: {
    type: 'kong.llm_request',
    subjectPrefix: 'consumer:',
    tokens: { count: '$.tokens', kind: '$.type', dimensions: PROVIDED_MODEL },
  },
  envoy: {
    type: ENVOY_EVENT_TYPE,
    subject: "$.attributes['tenant.id']",
    tokens: {
      input: '$.input_tokens',
      output: '$.output_tokens',
      cacheRead: '$.cached_input_tokens',
      cacheWrite: '$.cache_write_input_tokens',
      reasoning: '$.reasoning_tokens',
      inputIncludesCached: false,
      outputIncludesReasoning: true,
      dimensions: { model: '$.model_response', provider: '$.provider' },
    },
  },
  openmeter: {
    type: 'prompt',
    tokens: { count: '$.tokens', kind: '$.type', dimensions: PROVIDED_MODEL },
  },
} as const;
