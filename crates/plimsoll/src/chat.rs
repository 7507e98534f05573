//! `run`: one model in the terminal.

use crate::cli::Run;
use crate::{config, load};
use anyhow::{Context, anyhow, ensure};
use plimsoll_api::service::{
    Event, GenerateRequest, Generation, ModelCard, Prompt, Sampling, Service, Urgency,
};
use plimsoll_telemetry::logs;
use serde_json::json;
use std::future::poll_fn;
use std::io::{BufRead, IsTerminal, Write};
use std::time::Duration;

/// Runs `run`.
pub fn run(command: &Run) -> anyhow::Result<()> {
    ensure!(
        (0.0..=2.0).contains(&command.temperature),
        "--temperature {} is out of range; it must be from 0 to 2",
        command.temperature
    );
    ensure!(command.max_tokens != Some(0), "--max-tokens 0 asks for nothing; it must be at least 1");
    logs::init(logs::Format::Auto, "warn")?;
    let (compute, model) = config::single(&command.wanted())?;
    let service = load::single(model, compute)?;
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let said = tokio.block_on(async {
        let mut chat = Chat::new(service.as_ref(), command)?;
        match &command.prompt {
            Some(prompt) => chat.say(prompt, &mut std::io::stdout()).await,
            None => talk(chat).await,
        }
    });
    service.drain(Duration::ZERO);
    said
}

/// A talk with a model: what was said so far, and how it answers.
struct Chat<'a> {
    service: &'a dyn Service,
    model: ModelCard,
    messages: Vec<serde_json::Value>,
    max_tokens: Option<u32>,
    sampling: Sampling,
}

impl<'a> Chat<'a> {
    /// A talk with the first model of `service`.
    fn new(service: &'a dyn Service, run: &Run) -> anyhow::Result<Self> {
        let model = service.models(0).into_iter().next().context("no model was loaded")?;
        let messages = run.system.iter().map(|text| json!({"role": "system", "content": text})).collect();
        let sampling = Sampling { temperature: run.temperature, seed: run.seed, ..Sampling::default() };
        Ok(Self { service, model, messages, max_tokens: run.max_tokens, sampling })
    }

    /// Says `text` and streams the answer to `out`; both are remembered. A refused message is not.
    async fn say(&mut self, text: &str, out: &mut impl Write) -> anyhow::Result<()> {
        self.messages.push(json!({"role": "user", "content": text}));
        match self.answer(text, out).await {
            Ok(answer) => self.messages.push(json!({"role": "assistant", "content": answer})),
            Err(error) => {
                self.messages.pop();
                return Err(error);
            }
        }
        Ok(())
    }

    async fn answer(&self, text: &str, out: &mut impl Write) -> anyhow::Result<String> {
        let mut generation = self.service.generate(self.request(text)).await?;
        let mut answer = String::new();
        while let Some(event) = next(&mut generation).await {
            match event {
                Event::Delta(delta) => {
                    answer.push_str(&delta.text);
                    out.write_all(delta.text.as_bytes())?;
                    out.flush()?;
                }
                Event::Done(_) => break,
                Event::Failed(error) => return Err(anyhow!(error)),
            }
        }
        writeln!(out)?;
        Ok(answer)
    }

    fn request(&self, text: &str) -> GenerateRequest {
        GenerateRequest {
            model: self.model.id.clone(),
            request_id: "run".to_owned(),
            tenant: 0,
            urgency: Urgency::default(),
            prompt: self.prompt(text),
            n: 1,
            max_tokens: self.max_tokens,
            stop: Vec::new(),
            ignore_eos: false,
            cache_salt: String::new(),
            echo: false,
            logprobs: None,
            sampling: self.sampling.clone(),
        }
    }

    /// All messages so far; a model that cannot chat continues the last one.
    fn prompt(&self, text: &str) -> Prompt {
        if !self.model.chat {
            return Prompt::Text(text.to_owned());
        }
        Prompt::Chat {
            messages: self.messages.clone(),
            extra: serde_json::Map::new(),
            add_generation_prompt: true,
        }
    }
}

async fn next(generation: &mut Generation) -> Option<Event> {
    poll_fn(|context| generation.events.as_mut().poll_next(context)).await
}

/// Answers every line of standard input until it ends. A message that is refused is reported, and the talk goes on.
async fn talk(mut chat: Chat<'_>) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    for line in prompted_lines() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        if let Err(error) = chat.say(&line, &mut out).await {
            if error.downcast_ref::<std::io::Error>().is_some() {
                return Err(error);
            }
            eprintln!("plimsoll: {error:#}");
        }
    }
    Ok(())
}

/// Lines of standard input, each asked for with `> ` when a person types them.
fn prompted_lines() -> impl Iterator<Item = std::io::Result<String>> {
    let stdin = std::io::stdin();
    let asks = stdin.is_terminal();
    let mut lines = stdin.lock().lines();
    std::iter::from_fn(move || {
        if asks {
            eprint!("> ");
        }
        lines.next()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;
    use plimsoll_api::error::{Error, Reason};
    use plimsoll_testkit::service::ScriptedService;

    fn command() -> Run {
        let cli = Cli::parse_from(["plimsoll", "run", "tiny", "--system", "Be brief.", "--max-tokens", "7"]);
        let Command::Run(run) = cli.command else { panic!("not run") };
        run
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    #[test]
    fn the_talk_is_remembered() {
        let service = ScriptedService::saying(&["Good ", "day"]);
        let mut chat = Chat::new(&service, &command()).unwrap();
        let mut out = Vec::new();
        block_on(chat.say("Hi", &mut out)).unwrap();
        block_on(chat.say("Bye", &mut out)).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "Good day\nGood day\n");
        let Prompt::Chat { messages, .. } = &service.requests()[1].prompt else { panic!("no chat") };
        let said: Vec<_> = messages.iter().map(|message| message["content"].as_str().unwrap()).collect();
        assert_eq!(said, ["Be brief.", "Hi", "Good day", "Bye"]);
        assert_eq!(service.requests()[1].max_tokens, Some(7));
    }

    #[test]
    fn a_refused_message_is_forgotten() {
        let service = ScriptedService::new(|_| Err(Error::new(Reason::ContextLength, "too long")));
        let mut chat = Chat::new(&service, &command()).unwrap();
        assert_eq!(block_on(chat.say("Hi", &mut Vec::new())).unwrap_err().to_string(), "too long");
        assert_eq!(chat.messages.len(), 1);
    }
}
