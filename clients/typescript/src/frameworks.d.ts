/** Parts of LangChain that its adapter uses, so that the package is built without it. Its tests use the real types. */

declare module "langchain" {
  export interface AgentMiddleware {
    readonly name: string;
  }
  export class ToolMessage {
    constructor(fields: { content: string; tool_call_id: string; name?: string; status?: "success" | "error" });
    static isInstance(value: unknown): value is ToolMessage;
    content: unknown;
  }
  export interface ToolCallRequest {
    toolCall: { name: string; args: Record<string, unknown>; id?: string };
    tool: object | undefined;
    state: unknown;
    runtime: { signal?: AbortSignal };
  }
  export function createMiddleware(options: {
    name: string;
    wrapToolCall: (
      request: ToolCallRequest,
      handler: (request: ToolCallRequest) => object | Promise<object>,
    ) => Promise<object>;
  }): AgentMiddleware;
}

declare module "@langchain/langgraph" {
  export function getConfig():
    | { configurable?: Record<string, unknown>; metadata?: Record<string, unknown> }
    | undefined;
  export function interrupt(value: unknown): unknown;
  export function isGraphBubbleUp(error: unknown): boolean;
}
